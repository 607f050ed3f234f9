#include <penstock/sync/semaphore.hpp>

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::with_scope;
using penstock::sync::Semaphore;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Semaphore, LimitsConcurrencyToItsPermits) {
    const Watchdog watchdog;
    Semaphore semaphore(3);
    int inside = 0;
    int most = 0;
    const auto enter = [&]() -> Task<> {
        const Semaphore::Permit permit = expect(co_await semaphore.acquire());
        most = std::max(most, ++inside);
        co_await turns(3);
        --inside;
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            for (int i = 0; i < 20; ++i) {
                scope.spawn(enter());
            }
            co_return;
        });
    };
    run(program());
    EXPECT_EQ(most, 3);
    EXPECT_EQ(semaphore.available(), 3U);
}

TEST(Semaphore, ACancelledWaiterTakesNoPermit) {
    const Watchdog watchdog;
    Semaphore semaphore(1);
    const auto program = [&]() -> Task<> {
        Semaphore::Permit permit = expect(co_await semaphore.acquire());
        EXPECT_EQ((co_await penstock::timeout(1ms, semaphore.acquire())).error(),
                  std::errc::timed_out);
        permit.release();
        EXPECT_EQ(semaphore.available(), 1U);
    };
    run(program());
}

// NOLINTBEGIN(bugprone-unchecked-optional-access): nobody else holds it
TEST(Semaphore, AForgottenPermitIsNotReleased) {
    Semaphore semaphore(2);
    semaphore.try_acquire()->forget();
    EXPECT_EQ(semaphore.available(), 1U);
    semaphore.release(4);
    EXPECT_EQ(semaphore.available(), 5U);
}
// NOLINTEND(bugprone-unchecked-optional-access)

TEST(Semaphore, AnotherThreadsReleaseWakesAWaiter) {
    const Watchdog watchdog;
    Semaphore semaphore(0);
    const auto take = [&](int count) -> Task<int> {
        int taken = 0;
        for (; taken < count; ++taken) {
            expect(co_await semaphore.acquire()).forget();
        }
        co_return taken;
    };
    std::thread giver([&] {
        for (int i = 0; i < 1000; ++i) {
            semaphore.release();
        }
    });
    EXPECT_EQ(run(take(1000)), 1000);
    giver.join();
}

// NOLINTBEGIN(bugprone-unchecked-optional-access): nobody else holds it
TEST(Semaphore, AssigningAPermitReleasesTheOldOne) {
    Semaphore semaphore(2);
    std::optional<Semaphore::Permit> held = semaphore.try_acquire();
    std::optional<Semaphore::Permit> other = semaphore.try_acquire();
    ASSERT_TRUE(held && other);
    *held = std::move(*other);
    EXPECT_EQ(semaphore.available(), 1U);
    Semaphore::Permit& same = *held;
    *held = std::move(same);
    EXPECT_EQ(semaphore.available(), 1U);
    held->release();
    EXPECT_EQ(semaphore.available(), 2U);
}
// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace
