// Channels, locks and posts are shared by several threads, and waits for them are cancelled at
// random times, from a seed. No value and no permit is lost.

#include <penstock/penstock.hpp>

#include <atomic>
#include <chrono>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Channel;
using penstock::EventLoop;
using penstock::Result;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::turns;
using penstock::testing::Watchdog;
namespace sync = penstock::sync;

/// Runs a task on each of several threads, each with its own loop.
template <typename Make> void on_threads(unsigned count, Make make) {
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
        threads.emplace_back([&make, i] { penstock::run(make(i)); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(ThreadStress, AChannelClosedByAnotherThreadLosesNothing) {
    const Watchdog watchdog(110);
    for (unsigned round = 0; round < 30; ++round) {
        Channel<int> channel(1 + round % 3);
        std::atomic<int> sent = 0;
        std::atomic<int> received = 0;
        const auto send = [&](std::mt19937& random) -> Task<> {
            for (;;) {
                const Result<> done = co_await penstock::timeout(
                    std::chrono::microseconds(random() % 40), channel.send(1));
                if (done) {
                    sent.fetch_add(1);
                } else if (done.error() == penstock::Error::channel_closed) {
                    co_return;
                }
            }
        };
        const auto receive = [&](std::mt19937& random) -> Task<> {
            for (;;) {
                const Result<int> value = co_await penstock::timeout(
                    std::chrono::microseconds(random() % 40), channel.receive());
                if (value) {
                    received.fetch_add(*value);
                } else if (value.error() == penstock::Error::channel_closed) {
                    co_return;
                }
            }
        };
        const auto program = [&](unsigned index) -> Task<> {
            std::mt19937 random(round * 10 + index);
            if (index == 0) {
                while (received.load() < 200) {
                    (void)co_await penstock::sleep_for(50us);
                }
                channel.close();
                co_return;
            }
            (void)co_await penstock::all(send(random), receive(random), receive(random));
        };
        on_threads(4, program);
        EXPECT_EQ(received.load(), sent.load()) << "round " << round;
    }
}

TEST(ThreadStress, LocksOfManyThreadsSurviveCancellation) {
    const Watchdog watchdog(110);
    sync::Mutex mutex;
    sync::Semaphore semaphore(2);
    sync::Condition turned;
    sync::Latch ended(4);
    long guarded = 0;
    std::atomic<long> counted = 0;
    std::atomic<int> inside = 0;
    const auto lock = [&](std::mt19937& random) -> Task<> {
        for (int i = 0; i < 150; ++i) {
            const auto patience = std::chrono::microseconds(random() % 60);
            if (const auto guard = co_await penstock::timeout(patience, mutex.lock())) {
                ++guarded;
                counted.fetch_add(1);
                turned.notify_one();
                co_await turns(static_cast<int>(random() % 2));
            }
        }
    };
    const auto acquire = [&](std::mt19937& random) -> Task<> {
        for (int i = 0; i < 150; ++i) {
            const auto patience = std::chrono::microseconds(random() % 60);
            if (const auto permit = co_await penstock::timeout(patience, semaphore.acquire())) {
                EXPECT_LE(inside.fetch_add(1), 1);
                co_await turns(static_cast<int>(random() % 2));
                inside.fetch_sub(1);
            }
        }
    };
    const auto wait = [&](std::mt19937& random) -> Task<> {
        for (int i = 0; i < 100; ++i) {
            auto guard = expect(co_await mutex.lock());
            const Result<> notified = co_await penstock::timeout(
                std::chrono::microseconds(random() % 60), turned.wait(guard));
            EXPECT_TRUE(guard) << "held again, whatever happened";
            EXPECT_TRUE(notified || notified.error() == std::errc::timed_out);
            ++guarded;
            counted.fetch_add(1);
        }
    };
    on_threads(4, [&](unsigned index) -> Task<> {
        std::mt19937 random(index);
        (void)co_await penstock::all(lock(random), acquire(random), wait(random));
        expect(co_await ended.arrive_and_wait());
    });
    EXPECT_EQ(guarded, counted.load()) << "one at a time";
    EXPECT_FALSE(mutex.locked());
    EXPECT_EQ(semaphore.available(), 2U);
}

TEST(ThreadStress, PostsFromManyThreadsAllRun) {
    const Watchdog watchdog(110);
    constexpr int each = 3000;
    EventLoop loop;
    int ran = 0;
    sync::Event done;
    std::vector<std::thread> threads;
    const auto program = [&]() -> Task<> {
        for (int thread = 0; thread < 3; ++thread) {
            threads.emplace_back([&] {
                for (int i = 0; i < each; ++i) {
                    loop.post([&] {
                        if (++ran == 3 * each) {
                            done.set();
                        }
                    });
                }
            });
        }
        expect(co_await done.wait());
    };
    loop.run(program());
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(ran, 3 * each);
}

} // namespace
