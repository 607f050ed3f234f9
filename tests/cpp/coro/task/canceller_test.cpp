#include <penstock/task/canceller.hpp>

#include <thread>

#include <gtest/gtest.h>

#include <penstock/task/all_settled.hpp>
#include <penstock/task/run.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::cancellable;
using penstock::Canceller;
using penstock::EventLoop;
using penstock::run;
using penstock::Task;
using penstock::testing::Log;
using penstock::testing::succeeds_after;
using penstock::testing::turns;
using penstock::testing::waits_for_ever;
using penstock::testing::Watchdog;

TEST(Canceller, CancelsAllItsTasks) {
    const Watchdog watchdog;
    Log log;
    Canceller canceller;
    const auto cancel = [&]() -> Task<> {
        co_await turns(2);
        canceller.cancel();
    };
    const auto program = [&]() -> Task<> {
        const auto [first, second, none] = co_await penstock::all_settled(
            cancellable(canceller, waits_for_ever(log, "a")),
            cancellable(canceller, waits_for_ever(log, "b")), cancel());
        EXPECT_EQ(first.error(), std::errc::operation_canceled);
        EXPECT_EQ(second.error(), std::errc::operation_canceled);
        EXPECT_EQ((co_await cancellable(canceller, waits_for_ever(log, "later"))).error(),
                  std::errc::operation_canceled);
    };
    run(program());
    EXPECT_EQ(log, (Log{"a", "b", "later"}));
}

TEST(Canceller, IgnoresEndedTasks) {
    Canceller canceller;
    const auto program = [&]() -> Task<> {
        EXPECT_EQ(co_await cancellable(canceller, succeeds_after(1, 5)), 5);
        canceller.cancel();
        EXPECT_TRUE(co_await penstock::yield());
    };
    run(program());
}

TEST(Canceller, IsReachedFromAnotherThreadThroughTheLoop) {
    const Watchdog watchdog;
    Log log;
    Canceller canceller;
    EventLoop loop;
    const auto program = [&]() -> Task<> {
        std::thread other([&] { loop.post([&] { canceller.cancel(); }); });
        EXPECT_EQ((co_await cancellable(canceller, waits_for_ever(log, "a"))).error(),
                  std::errc::operation_canceled);
        other.join();
    };
    loop.run(program());
}

} // namespace
