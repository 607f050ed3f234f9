// An operation's memory is its owner's: after a warm-up nothing on floor 1 allocates.

#include <penstock/io/event_loop.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <thread>

#include <gtest/gtest.h>

#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_OPERATOR_NEW_IS_TAKEN // its runtime defines it, and the linker allows no second one
#endif
#endif

namespace {

std::atomic<std::size_t> allocations{0};

} // namespace

#ifndef PENSTOCK_OPERATOR_NEW_IS_TAKEN
void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}
#endif

namespace {

using penstock::io::EventLoop;
using penstock::io::MonotonicTime;
using penstock::io::Timer;
using penstock::io::Watch;
using penstock::io::Work;
using penstock::testing::SocketPair;
using penstock::testing::Watchdog;
namespace io = penstock::io;

/// Allocations of `body`'s later calls, when the first one has warmed everything up.
template <typename Body> std::size_t allocations_after_warm_up(Body body) {
    body();
    const std::size_t before = allocations.load();
    for (int round = 0; round < 100; ++round) {
        body();
    }
    return allocations.load() - before;
}

void do_nothing(Work& /*work*/) {}

class NoAllocation : public ::testing::Test {
protected:
    void SetUp() override {
#ifdef PENSTOCK_OPERATOR_NEW_IS_TAKEN
        GTEST_SKIP() << "allocations cannot be counted under ThreadSanitizer";
#endif
    }
};

TEST_F(NoAllocation, CounterSeesAnAllocation) {
    EXPECT_GE(allocations_after_warm_up([] {
                  const std::atomic<int*> memory{new int(1)};
                  delete memory.load();
              }),
              100U);
}

TEST_F(NoAllocation, SchedulingAndRunningWork) {
    EventLoop loop;
    std::array work{Work(&do_nothing), Work(&do_nothing), Work(&do_nothing)};
    EXPECT_EQ(allocations_after_warm_up([&] {
                  for (Work& item : work) {
                      loop.schedule(item);
                  }
                  loop.run_once();
              }),
              0U);
}

TEST_F(NoAllocation, PostingAndRunningWork) {
    EventLoop loop;
    std::array work{Work(&do_nothing), Work(&do_nothing), Work(&do_nothing)};
    EXPECT_EQ(allocations_after_warm_up([&] {
                  for (Work& item : work) {
                      loop.post(item);
                  }
                  loop.run_once();
              }),
              0U);
}

TEST_F(NoAllocation, PostingFromAnotherThreadToABlockedLoop) {
    const Watchdog watchdog;
    struct Posted : Work {
        Posted() : Work([](Work& work) { ++static_cast<Posted&>(work).runs; }) {}
        std::atomic<int> runs{0};
    };
    constexpr int count = 1000;
    EventLoop loop;
    Posted work;
    std::atomic<bool> go{false};
    std::thread poster([&] {
        while (!go.load()) {
            std::this_thread::yield();
        }
        for (int number = 1; number <= count; ++number) {
            loop.post(work);
            while (work.runs.load() < number) {
                std::this_thread::yield();
            }
        }
    });
    const std::size_t before = allocations.load();
    go.store(true);
    while (work.runs.load() < count) {
        loop.run_once();
    }
    const std::size_t after = allocations.load();
    poster.join();
    EXPECT_EQ(after - before, 0U);
}

TEST_F(NoAllocation, AddingAndCancellingTimers) {
    EventLoop loop;
    std::array timers{Timer(&do_nothing), Timer(&do_nothing), Timer(&do_nothing)};
    EXPECT_EQ(allocations_after_warm_up([&] {
                  MonotonicTime deadline = io::monotonic_now();
                  for (Timer& timer : timers) {
                      loop.timers().add(timer, ++deadline);
                  }
                  for (Timer& timer : timers) {
                      loop.timers().cancel(timer);
                  }
              }),
              0U);
}

TEST_F(NoAllocation, RunningDueTimers) {
    EventLoop loop;
    std::array timers{Timer(&do_nothing), Timer(&do_nothing), Timer(&do_nothing)};
    EXPECT_EQ(allocations_after_warm_up([&] {
                  for (Timer& timer : timers) {
                      loop.timers().add(timer, 0);
                  }
                  loop.run_once();
              }),
              0U);
}

TEST_F(NoAllocation, WatchingDescriptors) {
    EventLoop loop;
    SocketPair pair;
    Watch watch([](Watch& self, std::uint32_t) { penstock::testing::drain(self.fd); });
    EXPECT_EQ(allocations_after_warm_up([&] {
                  const bool refused = loop.poller().add(watch, pair.near.get(), io::readable) ||
                                       loop.poller().update(watch, io::readable | io::writable) ||
                                       loop.poller().update(watch, 0) ||
                                       loop.poller().update(watch, io::readable);
                  if (refused) {
                      std::abort();
                  }
                  write_byte(pair.far);
                  loop.run_once();
                  loop.poller().remove(watch);
              }),
              0U);
}

} // namespace
