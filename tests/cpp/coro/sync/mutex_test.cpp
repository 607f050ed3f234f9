#include <penstock/sync/mutex.hpp>

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
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::with_scope;
using penstock::sync::Mutex;
using penstock::testing::expect;
using penstock::testing::Log;
using penstock::testing::turns;
using penstock::testing::Watchdog;

Task<> enter(Mutex& mutex, Log& log, std::string name) {
    const Mutex::Guard guard = expect(co_await mutex.lock());
    log.push_back(name + " in");
    co_await turns(2);
    log.push_back(name + " out");
}

TEST(Mutex, LocksInOrderOfArrival) {
    const Watchdog watchdog;
    Mutex mutex;
    Log log;
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            for (const char* name : {"a", "b", "c"}) {
                scope.spawn(enter(mutex, log, name));
            }
            co_return;
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"a in", "a out", "b in", "b out", "c in", "c out"}));
    EXPECT_FALSE(mutex.locked());
}

TEST(Mutex, NobodyOvertakesAWaiter) {
    const Watchdog watchdog;
    Mutex mutex;
    const auto program = [&]() -> Task<> {
        Mutex::Guard guard = expect(co_await mutex.lock());
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            Log log;
            scope.spawn(enter(mutex, log, "waiting"));
            co_await turns(1);
            guard.unlock();
            EXPECT_FALSE(mutex.try_lock()) << "it has passed to the one that waits";
            co_await turns(10);
            EXPECT_TRUE(mutex.try_lock());
            EXPECT_EQ(log, (Log{"waiting in", "waiting out"}));
        });
    };
    run(program());
}

TEST(Mutex, ACancelledWaiterTakesNothing) {
    const Watchdog watchdog;
    Mutex mutex;
    const auto program = [&]() -> Task<> {
        Mutex::Guard guard = expect(co_await mutex.lock());
        EXPECT_EQ((co_await penstock::timeout(1ms, mutex.lock())).error(), std::errc::timed_out);
        guard.unlock();
        EXPECT_FALSE(mutex.locked());
        EXPECT_TRUE(mutex.try_lock());
    };
    run(program());
}

TEST(Mutex, ExcludesTasksOfSeveralLoops) {
    const Watchdog watchdog;
    Mutex mutex;
    int unguarded = 0;
    const auto count = [&]() -> Task<> {
        for (int i = 0; i < 500; ++i) {
            const Mutex::Guard guard = expect(co_await mutex.lock());
            ++unguarded;
            co_await turns(1);
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] { run(count()); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(unguarded, 1500);
}

// NOLINTBEGIN(bugprone-unchecked-optional-access): nobody else holds it
TEST(Mutex, AssigningAGuardUnlocksItsMutex) {
    Mutex first;
    Mutex second;
    std::optional<Mutex::Guard> held = first.try_lock();
    std::optional<Mutex::Guard> other = second.try_lock();
    ASSERT_TRUE(held && other);
    *held = std::move(*other);
    EXPECT_FALSE(first.locked());
    EXPECT_TRUE(second.locked());
    Mutex::Guard& same = *held;
    *held = std::move(same);
    EXPECT_TRUE(second.locked());
    *held = Mutex::Guard();
    EXPECT_FALSE(second.locked());
}
// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace
