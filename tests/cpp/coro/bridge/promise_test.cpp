#include <penstock/bridge/promise.hpp>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::Error;
using penstock::failure;
using penstock::make_promise;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::turns;
using penstock::testing::Watchdog;

TEST(Promise, PassesAValueThatCameBefore) {
    const auto program = []() -> Task<> {
        auto [promise, future] = make_promise<std::string>();
        EXPECT_FALSE(future.is_ready());
        promise.set("early");
        EXPECT_TRUE(future.is_ready());
        EXPECT_EQ(co_await future.wait(), "early");
    };
    run(program());
}

TEST(Promise, WakesAWaitingTask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [promise, future] = make_promise<int>();
        const auto waits = [&future]() -> Task<int> { co_return (co_await future.wait()).value(); };
        const auto sets = [&promise]() -> Task<> {
            co_await turns(3);
            promise.set(7);
            promise.set(8); // too late
        };
        const auto [value, none] = co_await penstock::all(waits(), sets());
        EXPECT_EQ(value, 7);
    };
    run(program());
}

TEST(Promise, IsSetByAnyThread) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (int i = 0; i < 200; ++i) {
            auto [promise, future] = make_promise<int>();
            std::thread other([promise = std::move(promise), i]() mutable { promise.set(i); });
            EXPECT_EQ(co_await future.wait(), i);
            other.join();
        }
    };
    run(program());
}

TEST(Promise, PassesErrorsAndSuccessWithoutAValue) {
    const auto program = []() -> Task<> {
        auto [fails, failed] = make_promise<int>();
        fails.set(failure(std::errc::connection_refused));
        EXPECT_EQ((co_await failed.wait()).error(), std::errc::connection_refused);
        auto [succeeds, succeeded] = make_promise();
        succeeds.set();
        EXPECT_TRUE(co_await succeeded.wait());
    };
    run(program());
}

TEST(Promise, DestroyedWithoutAResultIsAnError) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [promise, future] = make_promise<std::unique_ptr<int>>();
        {
            const auto dropped = std::move(promise);
        }
        EXPECT_EQ((co_await future.wait()).error(), Error::broken_promise);
        auto [replaced, abandoned] = make_promise<int>();
        auto [other, kept] = make_promise<int>();
        replaced = std::move(other);
        EXPECT_EQ((co_await abandoned.wait()).error(), Error::broken_promise);
        replaced.set(1);
        EXPECT_EQ(co_await kept.wait(), 1);
    };
    run(program());
}

TEST(Promise, MayBeMovedToItself) {
    const auto program = []() -> Task<> {
        auto [promise, future] = make_promise<int>();
        auto& same = promise;
        promise = std::move(same);
        EXPECT_FALSE(future.is_ready());
        promise.set(1);
        EXPECT_EQ(co_await future.wait(), 1);
    };
    run(program());
}

TEST(Promise, KeepsItsResultWhenAWaitIsCancelled) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [promise, future] = make_promise<int>();
        const Result<int> late =
            co_await penstock::timeout(std::chrono::milliseconds(1), future.wait());
        EXPECT_EQ(late.error(), std::errc::timed_out);
        promise.set(5);
        EXPECT_EQ(co_await future.wait(), 5);
    };
    run(program());
}

} // namespace
