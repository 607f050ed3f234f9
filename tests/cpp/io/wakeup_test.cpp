#include <penstock/io/event_loop.hpp>
#include <penstock/io/wakeup.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::Poller;
using penstock::io::Wakeup;
using penstock::io::Work;
using penstock::io::WorkQueue;
using penstock::testing::TestWork;
using penstock::testing::Watchdog;

constexpr std::size_t thread_count = 8;

/// The eventfd of the wake-up.
int eventfd_in(const Poller& poller) {
    const int fd = penstock::testing::descriptor_of("anon_inode:[eventfd]");
    EXPECT_NE(poller.watch_of(fd), nullptr);
    return fd;
}

/// How often the eventfd was written since the last call: the wake-up adds 1 each time and never
/// reads it.
std::uint64_t take_writes(const Poller& poller) {
    std::uint64_t writes = 0;
    return ::read(eventfd_in(poller), &writes, sizeof writes) == sizeof writes ? writes : 0;
}

template <typename Body> void run_in_threads(Body body) {
    std::vector<std::thread> threads;
    threads.reserve(thread_count);
    for (std::size_t number = 0; number < thread_count; ++number) {
        threads.emplace_back([number, &body] { body(number); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

/// Work posted by one of several threads, which checks the order of its thread's posts.
struct Posted : Work {
    struct Log {
        std::array<int, thread_count> last{};
        int runs = 0;
        bool in_order = true;
    };

    Posted(Log& to, std::size_t thread, int number)
        : Work(&run_it), log(to), by(thread), index(number) {}

    static void run_it(Work& work) {
        auto& self = static_cast<Posted&>(work);
        self.log.in_order = self.log.in_order && self.index == self.log.last[self.by] + 1;
        self.log.last[self.by] = self.index;
        ++self.log.runs;
    }

    Log& log;
    std::size_t by;
    int index;
};

std::vector<std::deque<Posted>> make_posts(Posted::Log& log, int count) {
    std::vector<std::deque<Posted>> posts(thread_count);
    for (std::size_t thread = 0; thread < thread_count; ++thread) {
        for (int index = 1; index <= count; ++index) {
            posts[thread].emplace_back(log, thread, index);
        }
    }
    return posts;
}

TEST(Wakeup, CollectsPostsInOrderBehindTheQueuesOwnWork) {
    Poller poller;
    Wakeup wakeup(poller);
    std::array<TestWork, 4> work;
    WorkQueue queue;
    queue.push_back(work[0]);
    for (std::size_t i = 1; i < work.size(); ++i) {
        wakeup.post(work[i]);
    }
    wakeup.collect(queue);
    for (const TestWork& expected : work) {
        EXPECT_EQ(queue.pop_front(), &expected);
    }
    wakeup.collect(queue);
    EXPECT_TRUE(queue.empty());
}

TEST(Wakeup, PostToALoopThatIsAwakeMakesNoSystemCall) {
    Poller poller;
    Wakeup wakeup(poller);
    std::array<TestWork, 100> work;
    for (TestWork& item : work) {
        wakeup.post(item);
    }
    EXPECT_EQ(take_writes(poller), 0U);
    EXPECT_FALSE(wakeup.prepare_to_block()) << "posted work waits";
    EXPECT_EQ(take_writes(poller), 0U);
}

TEST(Wakeup, ManyPostsMakeOneWrite) {
    constexpr int count = 1000;
    Poller poller;
    Wakeup wakeup(poller);
    Posted::Log log;
    auto posts = make_posts(log, count);
    ASSERT_TRUE(wakeup.prepare_to_block());
    run_in_threads([&](std::size_t thread) {
        for (Posted& work : posts[thread]) {
            wakeup.post(work);
        }
    });
    EXPECT_EQ(take_writes(poller), 1U);
    wakeup.awake();
    WorkQueue queue;
    wakeup.collect(queue);
    while (Work* work = queue.pop_front()) {
        work->run(*work);
    }
    EXPECT_EQ(log.runs, count * static_cast<int>(thread_count));
    EXPECT_TRUE(log.in_order);
}

TEST(Wakeup, ManyNotificationsMakeOneWrite) {
    Poller poller;
    Wakeup wakeup(poller);
    ASSERT_TRUE(wakeup.prepare_to_block());
    run_in_threads([&](std::size_t /*thread*/) {
        for (int i = 0; i < 1000; ++i) {
            wakeup.notify();
        }
    });
    EXPECT_EQ(take_writes(poller), 1U);
}

TEST(Wakeup, NotifyPreventsTheNextBlockOnce) {
    Poller poller;
    Wakeup wakeup(poller);
    wakeup.notify();
    wakeup.notify();
    EXPECT_FALSE(wakeup.prepare_to_block());
    EXPECT_TRUE(wakeup.prepare_to_block());
    EXPECT_EQ(take_writes(poller), 0U);
}

TEST(Wakeup, NotifyThatWokeTheLoopDoesNotKeepItAwake) {
    Poller poller;
    Wakeup wakeup(poller);
    ASSERT_TRUE(wakeup.prepare_to_block());
    wakeup.notify();
    EXPECT_EQ(poller.wait(0), 1);
    wakeup.awake();
    EXPECT_TRUE(wakeup.prepare_to_block());
}

TEST(Wakeup, EveryWriteIsAnEdgeWithoutARead) {
    Poller poller;
    Wakeup wakeup(poller);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(poller.wait(0), 0);
        ASSERT_TRUE(wakeup.prepare_to_block());
        wakeup.notify();
        EXPECT_EQ(poller.wait(0), 1);
        wakeup.awake();
        poller.dispatch();
    }
    EXPECT_EQ(take_writes(poller), 3U);
}

TEST(Wakeup, FullCounterIsResetAndErrnoIsPreserved) {
    Poller poller;
    Wakeup wakeup(poller);
    const std::uint64_t largest = UINT64_MAX - 1;
    ASSERT_EQ(::write(eventfd_in(poller), &largest, sizeof largest), 8);
    poller.wait(0);
    poller.dispatch();
    ASSERT_TRUE(wakeup.prepare_to_block());
    errno = ENOTTY;
    wakeup.notify();
    EXPECT_EQ(errno, ENOTTY) << "the caller may be a signal handler";
    EXPECT_EQ(poller.wait(0), 1);
    EXPECT_EQ(take_writes(poller), 1U);
}

TEST(Wakeup, PostsOfEightThreadsRunOnceEachInTheirThreadsOrder) {
    const Watchdog watchdog;
    constexpr int count = 20'000;
    EventLoop loop;
    Posted::Log log;
    auto posts = make_posts(log, count);
    std::thread posters([&] {
        run_in_threads([&](std::size_t thread) {
            std::minstd_rand random(static_cast<unsigned>(thread) + 1);
            for (Posted& work : posts[thread]) {
                loop.post(work);
                if (random() % 64 == 0) {
                    std::this_thread::yield(); // so that the loop drains its queue and blocks
                }
            }
        });
    });
    while (log.runs < count * static_cast<int>(thread_count)) {
        loop.run_once();
    }
    posters.join();
    EXPECT_TRUE(log.in_order);
    loop.run_once(0);
    EXPECT_EQ(log.runs, count * static_cast<int>(thread_count));
}

// One post at a time, at a random moment while the loop is about to block. After a lost wake-up the
// loop would block for ever.
TEST(Wakeup, NoPostIsLostBeforeBlocking) {
    const Watchdog watchdog;
    constexpr int count = 20'000;
    EventLoop loop;
    std::atomic<int> runs{0};
    TestWork work([&] { runs.fetch_add(1); });
    std::thread poster([&] {
        std::minstd_rand random(7); // the same run every time
        for (int number = 1; number <= count; ++number) {
            for (auto spins = random() % 300; spins > 0; --spins) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            loop.post(work);
            while (runs.load() < number) {
                std::this_thread::yield();
            }
        }
    });
    while (runs.load() < count) {
        loop.run_once();
    }
    poster.join();
    EXPECT_EQ(work.runs, count);
}

TEST(Wakeup, NoNotificationIsLostBeforeBlocking) {
    const Watchdog watchdog;
    constexpr int count = 20'000;
    EventLoop loop;
    std::atomic<int> asked{0};
    std::atomic<int> seen{0};
    std::thread asker([&] {
        std::minstd_rand random(11); // the same run every time
        for (int number = 1; number <= count; ++number) {
            for (auto spins = random() % 300; spins > 0; --spins) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            asked.store(number, std::memory_order_relaxed);
            loop.wakeup().notify();
            while (seen.load() < number) {
                std::this_thread::yield();
            }
        }
    });
    while (seen.load() < count) {
        loop.run_once();
        seen.store(asked.load(std::memory_order_relaxed));
    }
    asker.join();
}

std::atomic<Wakeup*> notified_by_signal{nullptr};

struct SignalNotifies {
    explicit SignalNotifies(Wakeup& wakeup) {
        notified_by_signal.store(&wakeup);
        struct sigaction action{};
        action.sa_handler = [](int) { notified_by_signal.load()->notify(); };
        sigaction(SIGUSR1, &action, &before);
    }
    ~SignalNotifies() { sigaction(SIGUSR1, &before, nullptr); }
    SignalNotifies(const SignalNotifies&) = delete;
    SignalNotifies& operator=(const SignalNotifies&) = delete;

    struct sigaction before{};
};

TEST(Wakeup, NotifyFromASignalHandlerInAnotherThreadWakesTheLoop) {
    const Watchdog watchdog;
    constexpr int count = 1000;
    EventLoop loop;
    const SignalNotifies handler(loop.wakeup());
    std::atomic<int> raised{0};
    std::atomic<int> seen{0};
    std::thread other([&] {
        for (int number = 1; number <= count; ++number) {
            raised.store(number);
            raise(SIGUSR1); // the handler runs in this thread and interrupts no wait
            while (seen.load() < number) {
                std::this_thread::yield();
            }
        }
    });
    while (seen.load() < count) {
        loop.run_once();
        seen.store(raised.load());
    }
    other.join();
}

TEST(Wakeup, NotifyFromASignalHandlerBeforeTheWaitKeepsTheLoopFromBlocking) {
    const Watchdog watchdog;
    EventLoop loop;
    const SignalNotifies handler(loop.wakeup());
    const std::int64_t timeout_ns = loop.prepare();
    ASSERT_LT(timeout_ns, 0);
    raise(SIGUSR1);
    EXPECT_EQ(loop.block(timeout_ns), 0);
    loop.dispatch();
}

TEST(Wakeup, ThrowsEmfileAndLeavesNothingOpen) {
    const std::size_t before = penstock::testing::open_descriptors();
    EXPECT_EQ(penstock::testing::error_with_descriptors_left(1, [] { const EventLoop loop; }),
              std::errc::too_many_files_open);
    EXPECT_EQ(penstock::testing::open_descriptors(), before);
    {
        const EventLoop loop;
    }
    EXPECT_EQ(penstock::testing::open_descriptors(), before);
}

} // namespace
