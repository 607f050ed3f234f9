#include <penstock/task/shield.hpp>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::shield;
using penstock::sleep_for;
using penstock::Task;
using penstock::testing::Log;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Shield, BlocksACancellationBeforeAndMeanwhile) {
    const Watchdog watchdog;
    Log log;
    const auto clean_up = [&]() -> Task<> {
        for (int i = 0; i < 3; ++i) {
            log.emplace_back(co_await sleep_for(1ms) ? "slept" : "cancelled");
        }
    };
    const auto work = [&]() -> Task<> {
        co_await shield(clean_up()); // the cancellation comes meanwhile
        log.emplace_back(co_await sleep_for(1ms) ? "slept" : "cancelled");
        co_await shield(clean_up()); // and came before
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(work());
            co_await turns(2);
            scope.cancel();
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"slept", "slept", "slept", "cancelled", "slept", "slept", "slept"}));
}

TEST(Shield, ATimeoutInsideOfItStillEnds) {
    const Watchdog watchdog;
    Result<> result;
    const auto work = [&]() -> Task<> {
        result = co_await shield(penstock::timeout(1ms, sleep_for(1h)));
    };
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(work());
            scope.cancel();
            co_return;
        });
    };
    run(program());
    EXPECT_EQ(result.error(), std::errc::timed_out);
}

} // namespace
