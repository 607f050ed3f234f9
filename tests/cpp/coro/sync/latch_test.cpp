#include <penstock/sync/latch.hpp>

#include <thread>

#include <gtest/gtest.h>

#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::with_scope;
using penstock::sync::Latch;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Latch, OpensWhenTheLastOneArrives) {
    const Watchdog watchdog;
    Latch latch(3);
    int passed = 0;
    const auto arrive = [&]() -> Task<> {
        expect(co_await latch.arrive_and_wait());
        EXPECT_EQ(latch.count(), 0U);
        ++passed;
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(arrive());
            scope.spawn(arrive());
            co_await turns(3);
            EXPECT_EQ(passed, 0);
            scope.spawn(arrive());
        });
        EXPECT_TRUE(co_await latch.wait());
    };
    run(program());
    EXPECT_EQ(passed, 3);
    latch.count_down();
    EXPECT_EQ(latch.count(), 0U);
}

TEST(Latch, IsCountedDownFromOtherThreads) {
    const Watchdog watchdog;
    Latch latch(400);
    const auto wait = [&]() -> Task<bool> { co_return (co_await latch.wait()).has_value(); };
    const auto count = [&] {
        for (int i = 0; i < 200; ++i) {
            latch.count_down();
        }
    };
    std::thread first(count);
    std::thread second(count);
    EXPECT_TRUE(run(wait()));
    first.join();
    second.join();
}

TEST(Latch, ACancelledArrivalStillCounts) {
    const Watchdog watchdog;
    Latch latch(2);
    const auto program = [&]() -> Task<> {
        const auto first = co_await penstock::race(latch.arrive_and_wait(), turns(2));
        EXPECT_EQ(first.index(), 1U);
        EXPECT_EQ(latch.count(), 1U);
        expect(co_await latch.arrive_and_wait());
    };
    run(program());
}

} // namespace
