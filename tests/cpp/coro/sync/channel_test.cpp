#include <penstock/sync/channel.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Channel;
using penstock::Error;
using penstock::Result;
using penstock::run;
using penstock::Scope;
using penstock::Task;
using penstock::with_scope;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;

Task<> send_numbers(Channel<int>& channel, int first, int last) {
    for (int number = first; number < last; ++number) {
        expect(co_await channel.send(number));
    }
}

Task<std::vector<int>> receive_all(Channel<int>& channel) {
    std::vector<int> numbers;
    while (Result<int> number = co_await channel.receive()) {
        numbers.push_back(*number);
    }
    co_return numbers;
}

std::vector<int> numbers_below(int end) {
    std::vector<int> numbers(static_cast<std::size_t>(end));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

TEST(Channel, KeepsTheOrderAtEveryFillLevel) {
    const Watchdog watchdog;
    for (const std::size_t capacity : {1U, 2U, 7U, 1000U}) {
        Channel<int> channel(capacity);
        const auto send = [&]() -> Task<> {
            co_await send_numbers(channel, 0, 500);
            channel.close();
        };
        const auto program = [&]() -> Task<std::vector<int>> {
            co_return std::get<1>(co_await penstock::all(send(), receive_all(channel)));
        };
        EXPECT_EQ(run(program()), numbers_below(500));
    }
}

TEST(Channel, ASenderWaitsWhileItIsFull) {
    const Watchdog watchdog;
    Channel<int> channel(2);
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(send_numbers(channel, 0, 5));
            co_await turns(5);
            EXPECT_EQ(channel.size(), 2U);
            for (int number = 0; number < 5; ++number) {
                EXPECT_EQ(co_await channel.receive(), number);
            }
        });
    };
    run(program());
}

TEST(Channel, ValuesSentBeforeTheCloseAreReceived) {
    Channel<int> channel(3);
    const auto program = [&]() -> Task<> {
        co_await send_numbers(channel, 0, 2);
        channel.close();
        EXPECT_EQ((co_await channel.send(9)).error(), Error::channel_closed);
        EXPECT_EQ(co_await channel.receive(), 0);
        EXPECT_EQ(co_await channel.receive(), 1);
        EXPECT_EQ((co_await channel.receive()).error(), Error::channel_closed);
    };
    run(program());
}

TEST(Channel, ClosingWakesAllWaiters) {
    const Watchdog watchdog;
    Channel<int> empty(1);
    Channel<int> full(1);
    const auto program = [&]() -> Task<> {
        expect(co_await full.send(1));
        const auto close = [&]() -> Task<> {
            co_await turns(2);
            empty.close();
            full.close();
        };
        const auto receive = [&]() -> Task<std::error_code> {
            co_return (co_await empty.receive()).error();
        };
        const auto send = [&]() -> Task<std::error_code> {
            co_return (co_await full.send(2)).error();
        };
        const auto results = co_await penstock::all(receive(), send(), close());
        EXPECT_EQ(std::get<0>(results), Error::channel_closed);
        EXPECT_EQ(std::get<1>(results), Error::channel_closed);
        EXPECT_EQ(co_await full.receive(), 1);
    };
    run(program());
}

TEST(Channel, ACancelledReceiverTakesNothing) {
    const Watchdog watchdog;
    Channel<int> channel(1);
    const auto program = [&]() -> Task<> {
        EXPECT_EQ((co_await penstock::timeout(1ms, channel.receive())).error(),
                  std::errc::timed_out);
        expect(co_await channel.send(4));
        EXPECT_EQ(channel.size(), 1U);
        EXPECT_EQ(co_await channel.receive(), 4);
    };
    run(program());
}

TEST(Channel, ACancelledSenderHasSentNothing) {
    const Watchdog watchdog;
    Channel<int> channel(1);
    const auto program = [&]() -> Task<> {
        expect(co_await channel.send(1));
        EXPECT_EQ((co_await penstock::timeout(1ms, channel.send(2))).error(), std::errc::timed_out);
        EXPECT_EQ(co_await channel.receive(), 1);
        EXPECT_EQ(channel.try_receive(), std::nullopt);
    };
    run(program());
}

TEST(Channel, AReceivedValueSurvivesACancellation) {
    const Watchdog watchdog;
    Channel<int> channel(1);
    int received = 0;
    const auto receive = [&]() -> Task<> { received = (co_await channel.receive()).value_or(-1); };
    const auto program = [&]() -> Task<> {
        (void)co_await with_scope([&](Scope& scope) -> Task<> {
            scope.spawn(receive());
            co_await turns(2);
            int value = 5;
            EXPECT_TRUE(channel.try_send(value)); // the receiver has the value, but has not run yet
            scope.cancel();
        });
    };
    run(program());
    EXPECT_EQ(received, 5);
}

TEST(Channel, DestroysValuesThatWereNotReceived) {
    auto watched = std::make_shared<int>(1);
    {
        Channel<std::shared_ptr<int>> channel(3);
        for (int i = 0; i < 2; ++i) {
            std::shared_ptr<int> copy = watched;
            EXPECT_TRUE(channel.try_send(copy));
        }
        EXPECT_EQ(watched.use_count(), 3);
    }
    EXPECT_EQ(watched.use_count(), 1);
}

TEST(Channel, RefusesACapacityOfZero) {
    EXPECT_THROW(Channel<int>(0), std::invalid_argument);
}

TEST(Channel, ManyThreadsNeitherLoseNorDuplicateValues) {
    const Watchdog watchdog;
    constexpr int producers = 3;
    constexpr int each = 2000;
    Channel<int> channel(16);
    std::vector<std::vector<int>> received(2);
    std::vector<std::thread> threads;
    threads.reserve(producers + received.size());
    std::atomic<int> left{producers};
    for (int i = 0; i < producers; ++i) {
        threads.emplace_back([&, i] {
            run(send_numbers(channel, i * each, (i + 1) * each));
            if (--left == 0) {
                channel.close();
            }
        });
    }
    for (std::vector<int>& into : received) {
        threads.emplace_back([&] { into = run(receive_all(channel)); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::vector<int> all = received[0];
    all.insert(all.end(), received[1].begin(), received[1].end());
    std::ranges::sort(all);
    EXPECT_EQ(all, numbers_below(producers * each));
}

TEST(Channel, CancellingReceiversOnOtherThreadsLosesNothing) {
    const Watchdog watchdog;
    Channel<int> channel(1);
    std::vector<int> received;
    const auto receive_with_timeouts = [&]() -> Task<> {
        for (;;) {
            const Result<int> number =
                co_await penstock::timeout(std::chrono::microseconds(20), channel.receive());
            if (number) {
                received.push_back(*number);
            } else if (number.error() == Error::channel_closed) {
                co_return;
            }
        }
    };
    std::thread sender([&] {
        run(send_numbers(channel, 0, 2000));
        channel.close();
    });
    run(receive_with_timeouts());
    sender.join();
    EXPECT_EQ(received, numbers_below(2000));
}

} // namespace
