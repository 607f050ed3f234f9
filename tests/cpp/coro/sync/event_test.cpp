#include <penstock/sync/event.hpp>

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/task/race.hpp>
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
using penstock::sync::Event;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Event, WakesAllWaiters) {
    const Watchdog watchdog;
    Event event;
    int passed = 0;
    const auto wait = [&]() -> Task<> {
        expect(co_await event.wait());
        ++passed;
    };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            for (int i = 0; i < 5; ++i) {
                scope.spawn(wait());
            }
            co_await turns(3);
            EXPECT_EQ(passed, 0);
            event.set();
            event.reset(); // too late for the waiters
            co_await turns(1);
            EXPECT_EQ(passed, 5);
        });
        EXPECT_EQ((co_await penstock::timeout(1ms, event.wait())).error(), std::errc::timed_out);
        event.set();
        EXPECT_TRUE(co_await event.wait());
    };
    run(program());
}

TEST(Event, MayBeDestroyedByAWokenTask) {
    const Watchdog watchdog;
    for (int i = 0; i < 200; ++i) {
        auto event = std::make_unique<Event>();
        const auto wait = [&]() -> Task<> {
            expect(co_await event->wait());
            event.reset();
        };
        std::thread setter([&event = *event] { event.set(); });
        run(wait());
        setter.join();
    }
}

TEST(Event, ACancelledWaiterIsNotWoken) {
    const Watchdog watchdog;
    Event event;
    const auto program = [&]() -> Task<> {
        const auto first = co_await penstock::race(event.wait(), turns(2));
        EXPECT_EQ(first.index(), 1U);
        event.set(); // no waiter is left
        EXPECT_TRUE(co_await event.wait());
    };
    run(program());
}

} // namespace
