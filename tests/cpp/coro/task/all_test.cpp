#include <penstock/task/all.hpp>

#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>

#include "coro/support/steps.hpp"
#include "coro/support/tcp_pair.hpp"

namespace {

using penstock::all;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::fails_after;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::throws_after;
using penstock::testing::turns;
using penstock::testing::waits_for_ever;

TEST(All, YieldsTheValuesInOrder) {
    const auto pointer = []() -> Task<std::unique_ptr<int>> {
        co_await turns(1);
        co_return std::make_unique<int>(3);
    };
    const auto program = [&]() -> Task<> {
        auto values = expect(co_await all(succeeds_after(5, 1), succeeds_after(0, 2), pointer(),
                                          turns(2), penstock::yield()));
        EXPECT_EQ(std::get<0>(values), 1);
        EXPECT_EQ(std::get<1>(values), 2);
        EXPECT_EQ(*std::get<2>(values), 3);
    };
    run(program());
}

TEST(All, YieldsAPlainTupleIfNoChildCanFail) {
    const auto number = [](int value) -> Task<int> { co_return value; };
    const auto program = [&]() -> Task<> {
        const std::tuple<int, int> both = co_await all(number(1), number(2));
        EXPECT_EQ(both, std::tuple(1, 2));
    };
    run(program());
}

TEST(All, RunsChildrenConcurrently) {
    Log log;
    const auto note = [&](std::string name) -> Task<> {
        log.push_back(name + "1");
        co_await turns(1);
        log.push_back(name + "2");
    };
    const auto program = [&]() -> Task<> { co_await all(note("a"), note("b")); };
    run(program());
    EXPECT_EQ(log, (Log{"a1", "b1", "a2", "b2"}));
}

TEST(All, TheFirstErrorCancelsTheOthersAndAwaitsThem) {
    Log log;
    const auto program = [&]() -> Task<> {
        const auto result =
            co_await all(waits_for_ever(log, "first"), fails_after(2, std::errc::io_error),
                         waits_for_ever(log, "third"));
        EXPECT_EQ(result.error(), std::errc::io_error);
        EXPECT_EQ(log, (Log{"first", "third"}));
    };
    run(program());
}

TEST(All, AnErrorWithoutWaitingStartsTheRestCancelled) {
    Log log;
    const auto program = [&]() -> Task<> {
        const auto result =
            co_await all(fails_after(0, std::errc::io_error), waits_for_ever(log, "second"));
        EXPECT_EQ(result.error(), std::errc::io_error);
        EXPECT_EQ(log, (Log{"second"}));
    };
    run(program());
}

TEST(All, AnExceptionIsRethrownWhenAllHaveEnded) {
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await all(throws_after(2), waits_for_ever(log, "other"));
    };
    EXPECT_THROW(run(program()), std::runtime_error);
    EXPECT_EQ(log, (Log{"other"}));
}

TEST(All, CancellingItCancelsEachAndWaits) {
    Log log;
    const auto both = [&]() -> Task<> {
        const auto result = co_await all(waits_for_ever(log, "a"), waits_for_ever(log, "b"));
        EXPECT_EQ(result.error(), std::errc::operation_canceled);
        log.emplace_back("all");
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(both());
            co_await turns(2);
            scope.cancel();
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"a", "b", "all"}));
}

TEST(All, TakesAnyNumberOfOneType) {
    const auto program = []() -> Task<> {
        std::vector<Task<Result<int>>> tasks;
        tasks.reserve(100);
        for (int i = 0; i < 100; ++i) {
            tasks.push_back(succeeds_after(i % 7, i));
        }
        const std::vector<int> values = expect(co_await all(std::move(tasks)));
        EXPECT_EQ(values.size(), 100U);
        EXPECT_EQ(values[41], 41);

        tasks.clear();
        tasks.push_back(succeeds_after(1, 1));
        tasks.push_back(fails_after(1, std::errc::io_error));
        EXPECT_EQ((co_await all(std::move(tasks))).error(), std::errc::io_error);
        EXPECT_TRUE(expect(co_await all(std::vector<Task<Result<int>>>())).empty());
    };
    run(program());
}

} // namespace
