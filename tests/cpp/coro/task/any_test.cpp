#include <penstock/task/any.hpp>

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>

#include "coro/support/steps.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::any;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::fails_after;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::waits_for_ever;
using penstock::testing::Watchdog;

TEST(Any, TheFirstSuccessWinsOverEarlierErrors) {
    Log log;
    const auto program = [&]() -> Task<> {
        const auto first = expect(co_await any(fails_after(0, std::errc::io_error),
                                               waits_for_ever(log, "b"), succeeds_after(3, 4)));
        EXPECT_EQ(first.index(), 2U);
        EXPECT_EQ(std::get<2>(first), 4);
        EXPECT_EQ(log, (Log{"b"}));
    };
    run(program());
}

TEST(Any, FailsOnlyWhenAllFail) {
    const auto program = []() -> Task<> {
        const auto none = co_await any(fails_after(4, std::errc::io_error),
                                       fails_after(1, std::errc::bad_message));
        EXPECT_EQ(none.error(), std::errc::bad_message);
    };
    run(program());
}

TEST(Any, TakesAnyNumberOfOneType) {
    Log log;
    const auto program = [&]() -> Task<> {
        std::vector<Task<Result<int>>> tasks;
        tasks.push_back(fails_after(0, std::errc::io_error));
        tasks.push_back(succeeds_after(2, 5));
        tasks.push_back(waits_for_ever(log, "c"));
        const penstock::Winner<int> winner = expect(co_await any(std::move(tasks)));
        EXPECT_EQ(winner.index, 1U);
        EXPECT_EQ(winner.value, 5);
        (void)co_await any(std::vector<Task<Result<int>>>());
    };
    EXPECT_THROW(run(program()), std::invalid_argument);
}

TEST(Any, AnExceptionCancelsTheOthersAndIsRethrown) {
    const Watchdog watchdog;
    Log log;
    const auto throws = []() -> Task<Result<int>> {
        co_return co_await penstock::testing::throws_after(1);
    };
    const auto program = [&]() -> Task<> {
        (void)co_await any(waits_for_ever(log, "a"), throws());
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(log, (Log{"a"}));
}

} // namespace
