#include <penstock/bridge/to_thread.hpp>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::failure;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::to_thread;
using penstock::testing::expect;
using penstock::testing::Watchdog;

TEST(ToThread, CallsOnAnotherThreadAndComesBack) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const std::thread::id here = std::this_thread::get_id();
        const std::thread::id there =
            expect(co_await to_thread([] { return std::this_thread::get_id(); }));
        EXPECT_NE(here, there);
        EXPECT_EQ(here, std::this_thread::get_id());
    };
    run(program());
}

TEST(ToThread, ReturnsValuesErrorsAndExceptions) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const auto fails = []() -> Result<int> { return failure(std::errc::io_error); };
        EXPECT_EQ((co_await to_thread(fails)).error(), std::errc::io_error);
        EXPECT_TRUE(co_await to_thread([] {}));
        (void)co_await to_thread([] { throw std::runtime_error("broken contract"); });
    };
    EXPECT_THROW(run(program()), std::runtime_error);
}

TEST(ToThread, WaitsForAStartedCall) {
    const Watchdog watchdog;
    std::promise<void> begun;
    std::promise<void> go_on;
    std::atomic<bool> ended{false};
    const auto program = [&]() -> Task<> {
        const auto call = [&] {
            begun.set_value();
            go_on.get_future().wait();
            ended = true;
            return 7;
        };
        Result<int> value = failure(std::errc::io_error);
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            const auto keep = [](auto& function, Result<int>& into) -> Task<> {
                into = co_await to_thread(std::ref(function));
            };
            scope.spawn(keep(call, value));
            (void)co_await penstock::sleep_for(0s);
            begun.get_future().wait();
            scope.cancel();
            go_on.set_value();
        });
        EXPECT_TRUE(ended);
        EXPECT_EQ(value, 7);
    };
    run(program());
}

TEST(ToThread, ACallThatHasNotStartedIsWithdrawn) {
    const Watchdog watchdog;
    std::promise<void> go_on;
    const std::shared_future<void> gate = go_on.get_future().share();
    std::atomic<int> calls{0};
    const auto program = [&]() -> Task<> {
        (void)co_await penstock::with_scope([&](Scope& scope) -> Task<> {
            const auto block = [](const std::shared_future<void>& until) -> Task<> {
                (void)co_await to_thread([&] { until.wait(); });
            };
            for (std::size_t i = 0; i < penstock::detail::WorkerPool::most_threads; ++i) {
                scope.spawn(block(gate));
            }
            (void)co_await penstock::sleep_for(0s);
            EXPECT_EQ((co_await penstock::timeout(1ms, to_thread([&] { ++calls; }))).error(),
                      std::errc::timed_out);
            go_on.set_value();
        });
    };
    run(program());
    EXPECT_EQ(calls, 0);
}

TEST(ToThread, ManyCallsAllComeBack) {
    const Watchdog watchdog;
    const auto one = [](int value) -> Task<Result<int>> {
        co_return co_await to_thread([value] { return value; });
    };
    const auto program = [&]() -> Task<Result<std::vector<int>>> {
        std::vector<Task<Result<int>>> tasks;
        tasks.reserve(1000);
        for (int i = 0; i < 1000; ++i) {
            tasks.push_back(one(i));
        }
        co_return co_await penstock::all(std::move(tasks));
    };
    const std::vector<int> values = expect(run(program()));
    ASSERT_EQ(values.size(), 1000U);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
    }
}

} // namespace
