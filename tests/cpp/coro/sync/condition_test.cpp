#include <penstock/sync/condition.hpp>

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
using penstock::sync::Condition;
using penstock::sync::Mutex;
using penstock::testing::expect;
using penstock::testing::Log;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Condition, WakesOneOrAllInOrderOfArrival) {
    const Watchdog watchdog;
    Mutex mutex;
    Condition condition;
    Log log;
    const auto wait = [&](std::string name) -> Task<> {
        Mutex::Guard guard = expect(co_await mutex.lock());
        expect(co_await condition.wait(guard));
        EXPECT_TRUE(guard);
        log.push_back(std::move(name));
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            for (const char* name : {"a", "b", "c"}) {
                scope.spawn(wait(name));
            }
            co_await turns(10);
            condition.notify_one();
            co_await turns(5);
            EXPECT_EQ(log, (Log{"a"}));
            condition.notify_all();
        });
    };
    run(program());
    EXPECT_EQ(log, (Log{"a", "b", "c"}));
    EXPECT_FALSE(mutex.locked());
}

TEST(Condition, HoldsTheMutexAgainAfterACancellation) {
    const Watchdog watchdog;
    Mutex mutex;
    Condition condition;
    const auto program = [&]() -> Task<> {
        Mutex::Guard guard = expect(co_await mutex.lock());
        EXPECT_EQ((co_await penstock::timeout(1ms, condition.wait(guard))).error(),
                  std::errc::timed_out);
        EXPECT_TRUE(guard);
        EXPECT_TRUE(mutex.locked());
    };
    run(program());
}

TEST(Condition, WaitsForAPredicateAcrossThreads) {
    const Watchdog watchdog;
    Mutex mutex;
    Condition condition;
    int value = 0;
    const auto count_up = [&]() -> Task<> {
        for (int i = 0; i < 300; ++i) {
            const Mutex::Guard guard = expect(co_await mutex.lock());
            ++value;
            condition.notify_all();
        }
    };
    const auto wait = [&]() -> Task<int> {
        Mutex::Guard guard = expect(co_await mutex.lock());
        expect(co_await condition.wait(guard, [&] { return value == 300; }));
        co_return value;
    };
    std::thread other([&] { run(count_up()); });
    EXPECT_EQ(run(wait()), 300);
    other.join();
}

} // namespace
