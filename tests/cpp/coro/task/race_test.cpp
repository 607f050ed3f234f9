#include <penstock/task/race.hpp>

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sync/event.hpp>
#include <penstock/task/run.hpp>

#include "coro/support/steps.hpp"

namespace {

using penstock::race;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::Winner;
using penstock::testing::fails_after;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::waits_for_ever;

TEST(Race, TheFirstToEndWinsAndTheLosersAreAwaited) {
    Log log;
    const auto program = [&]() -> Task<> {
        const auto first =
            co_await race(waits_for_ever(log, "a"), succeeds_after(2, 9), waits_for_ever(log, "c"));
        EXPECT_EQ(first.index(), 1U);
        EXPECT_EQ(std::get<1>(first), 9);
        EXPECT_EQ(log, (Log{"a", "c"}));
    };
    run(program());
}

TEST(Race, AnErrorCanWin) {
    Log log;
    const auto program = [&]() -> Task<> {
        const auto first =
            co_await race(fails_after(1, std::errc::io_error), waits_for_ever(log, "b"));
        EXPECT_EQ(first.index(), 0U);
        EXPECT_EQ(std::get<0>(first).error(), std::errc::io_error);
    };
    run(program());
}

TEST(Race, TakesOperationsOfAnyKind) {
    const auto program = []() -> Task<> {
        penstock::sync::Event event;
        event.set();
        const auto first = co_await race(penstock::sleep_for(std::chrono::hours(1)), event.wait());
        EXPECT_EQ(first.index(), 1U);
    };
    run(program());
}

TEST(Race, ALosersExceptionIsRethrown) {
    const auto throws_when_cancelled = []() -> Task<> {
        (void)co_await penstock::sleep_for(std::chrono::hours(1));
        throw std::runtime_error("broken contract");
    };
    const auto program = [&]() -> Task<> {
        (void)co_await race(succeeds_after(1, 1), throws_when_cancelled());
    };
    EXPECT_THROW(run(program()), std::runtime_error);
}

TEST(Race, TakesAnyNumberOfOneType) {
    Log log;
    const auto program = [&]() -> Task<> {
        std::vector<Task<Result<int>>> tasks;
        tasks.push_back(waits_for_ever(log, "a"));
        tasks.push_back(waits_for_ever(log, "b"));
        tasks.push_back(succeeds_after(2, 5));
        const Winner<Result<int>> winner = co_await race(std::move(tasks));
        EXPECT_EQ(winner.index, 2U);
        EXPECT_EQ(winner.value, 5);
        EXPECT_EQ(log, (Log{"a", "b"}));
        (void)co_await race(std::vector<Task<Result<int>>>());
    };
    EXPECT_THROW(run(program()), std::invalid_argument);
}

} // namespace
