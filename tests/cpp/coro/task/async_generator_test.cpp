#include <penstock/task/async_generator.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>

#include "coro/support/steps.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::AsyncGenerator;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::fails_after;
using penstock::testing::succeeds_after;
using penstock::testing::turns;
using penstock::testing::Watchdog;

AsyncGenerator<int> count(int from, int to) {
    for (int i = from; i < to; ++i) {
        co_await turns(i % 3);
        co_yield i;
    }
}

TEST(AsyncGenerator, YieldsItsItems) {
    const Watchdog watchdog;
    const auto program = []() -> Task<std::vector<int>> {
        std::vector<int> seen;
        auto items = count(0, 5);
        while (const std::optional<int> item = co_await items.next()) {
            seen.push_back(*item);
        }
        EXPECT_EQ(co_await items.next(), std::nullopt); // stays at its end
        co_return seen;
    };
    EXPECT_EQ(run(program()), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(AsyncGenerator, StacksOnOthers) {
    const auto squares = [](AsyncGenerator<int> items) -> AsyncGenerator<std::string> {
        while (const std::optional<int> item = co_await items.next()) {
            co_yield std::to_string(*item * *item);
        }
    };
    const auto program = [&]() -> Task<std::string> {
        std::string text;
        auto items = squares(count(1, 4));
        while (const std::optional<std::string> item = co_await items.next()) {
            text += *item + " ";
        }
        co_return text;
    };
    EXPECT_EQ(run(program()), "1 4 9 ");
}

TEST(AsyncGenerator, IsDestroyedInItsMiddleOrBeforeItStarts) {
    const auto held = std::make_shared<int>(0);
    const auto endless = [](std::shared_ptr<int> held) -> AsyncGenerator<int> {
        for (;;) {
            co_yield (*held)++;
        }
    };
    const auto program = [&]() -> Task<> {
        auto items = endless(held);
        EXPECT_EQ(co_await items.next(), 0);
        EXPECT_EQ(co_await items.next(), 1);
        const auto never_started = endless(held);
    };
    run(program());
    EXPECT_EQ(held.use_count(), 1);
}

TEST(AsyncGenerator, RethrowsExceptions) {
    const auto throws = []() -> AsyncGenerator<int> {
        co_yield 1;
        co_await turns(1);
        throw std::runtime_error("broken contract");
    };
    const auto program = [&]() -> Task<> {
        auto items = throws();
        EXPECT_EQ(co_await items.next(), 1);
        (void)co_await items.next();
    };
    EXPECT_THROW(run(program()), std::runtime_error);
}

TEST(AsyncGenerator, IsEmptyAfterAnException) {
    const auto throws = []() -> AsyncGenerator<int> {
        co_await turns(1);
        throw std::runtime_error("broken contract");
        co_yield 1;
    };
    const auto program = [&]() -> Task<> {
        auto items = throws();
        bool thrown = false;
        try {
            (void)co_await items.next();
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        EXPECT_TRUE(thrown);
        EXPECT_EQ(co_await items.next(), std::nullopt);
        EXPECT_EQ(co_await items.next(), std::nullopt);
    };
    run(program());
}

TEST(AsyncGenerator, UnwrapYieldsTheErrorAsTheLastItem) {
    const Watchdog watchdog;
    const auto held = std::make_shared<int>(0);
    const auto fails = [](std::shared_ptr<int> kept) -> AsyncGenerator<Result<int>> {
        const auto local = std::move(kept);
        co_yield co_await unwrap(succeeds_after(1, 3));
        (void)co_await unwrap(fails_after(2, std::errc::io_error));
        co_yield 4;
    };
    const auto program = [&]() -> Task<> {
        auto items = fails(held);
        EXPECT_EQ((co_await items.next())->value(), 3);
        EXPECT_EQ((co_await items.next())->error(), std::errc::io_error);
        EXPECT_EQ(held.use_count(), 1); // local variables are destroyed
        EXPECT_FALSE((co_await items.next()).has_value());
        EXPECT_FALSE((co_await items.next()).has_value());
    };
    run(program());
}

TEST(AsyncGenerator, SharesTheCancellationOfItsConsumer) {
    const Watchdog watchdog;
    const auto sleeps = []() -> AsyncGenerator<Result<>> {
        co_yield Result<>();
        for (;;) {
            co_yield co_await penstock::sleep_for(1h);
        }
    };
    const auto program = [&]() -> Task<> {
        auto items = sleeps();
        EXPECT_TRUE((co_await items.next())->has_value());
        const auto late = co_await penstock::timeout(1ms, items.next());
        EXPECT_EQ(late.error(), std::errc::timed_out);
    };
    run(program());
}

TEST(AsyncGenerator, DoesNotGrowTheStack) {
    const auto numbers = []() -> AsyncGenerator<int> {
        for (int i = 0; i < 1'000'000; ++i) {
            co_yield i;
        }
    };
    const auto program = [&]() -> Task<long> {
        long sum = 0;
        auto items = numbers();
        while (const std::optional<int> item = co_await items.next()) {
            sum += *item;
        }
        co_return sum;
    };
    EXPECT_EQ(run(program()), 499'999'500'000);
}

} // namespace
