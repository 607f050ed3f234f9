#include <penstock/task/sleep.hpp>

#include <chrono>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::run;
using penstock::Scope;
using penstock::sleep_for;
using penstock::sleep_until;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::Log;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using Clock = std::chrono::steady_clock;

TEST(Sleep, LastsAtLeastTheDuration) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const Clock::time_point before = Clock::now();
        expect(co_await sleep_for(3ms));
        EXPECT_GE(Clock::now() - before, 3ms);
        const Clock::time_point deadline = Clock::now() + 3ms;
        expect(co_await sleep_until(deadline));
        EXPECT_GE(Clock::now(), deadline);
    };
    run(program());
}

TEST(Sleep, EndsInOrderOfTheDeadlines) {
    const Watchdog watchdog;
    Log log;
    const auto program = [&]() -> Task<> {
        const auto note = [&](Clock::time_point deadline, std::string name) -> Task<> {
            expect(co_await sleep_until(deadline));
            log.push_back(std::move(name));
        };
        const Clock::time_point now = Clock::now();
        co_await penstock::all(note(now + 4ms, "third"), note(now + 1ms, "first"),
                               note(now + 2ms, "second"));
    };
    run(program());
    EXPECT_EQ(log, (Log{"first", "second", "third"}));
}

TEST(Sleep, APastDeadlineAndANegativeDurationLetOthersRun) {
    const Watchdog watchdog;
    int turn = 0;
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            const auto count = [](int& into) -> Task<> {
                ++into;
                co_return;
            };
            scope.spawn(count(turn));
            expect(co_await sleep_for(-5s));
            EXPECT_EQ(turn, 1);
            expect(co_await sleep_until(Clock::time_point{}));
        });
    };
    run(program());
}

TEST(Sleep, TheLongestSleepCanBeCancelled) {
    const Watchdog watchdog;
    std::size_t timers = 1;
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            const auto sleep = []() -> Task<> {
                EXPECT_EQ((co_await sleep_for(std::chrono::hours::max())).error(),
                          std::errc::operation_canceled);
            };
            scope.spawn(sleep());
            co_await turns(2);
            EXPECT_EQ(penstock::EventLoop::current().timers().size(), 1U);
            scope.cancel();
            timers = penstock::EventLoop::current().timers().size();
        });
    };
    run(program());
    EXPECT_EQ(timers, 0U) << "a cancelled sleep leaves nothing behind";
}

} // namespace
