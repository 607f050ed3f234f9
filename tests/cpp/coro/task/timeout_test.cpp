#include <penstock/task/timeout.hpp>

#include <chrono>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/shield.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::timeout;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::throws_after;
using penstock::testing::turns;
using penstock::testing::waits_for_ever;
using penstock::testing::Watchdog;

TEST(Timeout, YieldsAResultInTime) {
    const auto program = []() -> Task<> {
        EXPECT_EQ(co_await timeout(1h, succeeds_after(2, 3)), 3);
        EXPECT_TRUE(co_await timeout(1h, turns(1)));
        EXPECT_EQ(penstock::EventLoop::current().timers().size(), 0U);
    };
    run(program());
}

TEST(Timeout, CancelsAndAwaitsALateTask) {
    const Watchdog watchdog;
    Log log;
    const auto program = [&]() -> Task<> {
        EXPECT_EQ((co_await timeout(1ms, waits_for_ever(log, "late"))).error(),
                  std::errc::timed_out);
        EXPECT_EQ(log, (Log{"late"}));
        EXPECT_EQ((co_await penstock::timeout_at(std::chrono::steady_clock::now(),
                                                 penstock::sleep_for(1h)))
                      .error(),
                  std::errc::timed_out);
    };
    run(program());
}

TEST(Timeout, ALateSuccessIsASuccess) {
    const Watchdog watchdog;
    const auto stubborn = []() -> Task<Result<int>> {
        (void)co_await penstock::sleep_for(1h);
        co_return 6;
    };
    const auto program = [&]() -> Task<> { EXPECT_EQ(co_await timeout(1ms, stubborn()), 6); };
    run(program());
}

TEST(Timeout, ALateTaskWithoutAResultHasTimedOut) {
    const Watchdog watchdog;
    const auto sleep = []() -> Task<> { (void)co_await penstock::sleep_for(1h); };
    const auto program = [&]() -> Task<> {
        EXPECT_EQ((co_await timeout(1ms, sleep())).error(), std::errc::timed_out);
    };
    run(program());
}

TEST(Timeout, RethrowsAnException) {
    const auto program = []() -> Task<> { (void)co_await timeout(1h, throws_after(1)); };
    EXPECT_THROW(run(program()), std::runtime_error);
}

TEST(Timeout, TheInnerOneEndsFirst) {
    const Watchdog watchdog;
    Log log;
    const auto program = [&]() -> Task<> {
        const Result<int> result = co_await timeout(1h, timeout(1ms, waits_for_ever(log, "inner")));
        EXPECT_EQ(result.error(), std::errc::timed_out);
    };
    run(program());
}

TEST(Timeout, AnOuterCancellationIsNoTimeout) {
    const Watchdog watchdog;
    Log log;
    Result<int> result = 0;
    const auto wait = [&]() -> Task<> { result = co_await timeout(1h, waits_for_ever(log, "x")); };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(wait());
            co_await turns(2);
            scope.cancel();
        });
    };
    run(program());
    EXPECT_EQ(result.error(), std::errc::operation_canceled);
}

TEST(Timeout, ATaskCancelledBeforeTheDeadlineHasNotTimedOut) {
    const Watchdog watchdog;
    Result<> result;
    const auto slow_to_end = []() -> Task<Result<>> {
        const Result<> slept = co_await penstock::sleep_for(1h);
        (void)co_await penstock::shield(penstock::sleep_for(20ms));
        co_return slept;
    };
    const auto wait = [&]() -> Task<> { result = co_await timeout(10ms, slow_to_end()); };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(wait());
            co_await turns(2);
            scope.cancel();
        });
    };
    run(program());
    EXPECT_EQ(result.error(), std::errc::operation_canceled);
}

} // namespace
