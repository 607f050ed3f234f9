// An operation's memory belongs to its owner: after a warm-up, floor 1 does not allocate.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/choose_file_engine.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/allocations.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileEngine;
using penstock::io::FileOperation;
using penstock::io::MonotonicTime;
using penstock::io::Timer;
using penstock::io::Watch;
using penstock::io::Work;
using penstock::testing::allocations;
using penstock::testing::allocations_after_warm_up;
using penstock::testing::Pipe;
using penstock::testing::SocketPair;
using penstock::testing::TemporaryFolder;
using penstock::testing::Watchdog;
namespace io = penstock::io;

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

/// Each kind of operation on a small file, and a cancelled operation, on each engine.
void count_file_operations(std::unique_ptr<FileEngine> engine) {
    const Watchdog watchdog;
    const TemporaryFolder folder;
    const std::string path = folder.file("file", "content");
    EventLoop loop;
    ASSERT_FALSE(loop.attach(*engine));
    const Pipe pipe;
    const std::array<Pipe, 3> silent;
    std::array<char, 8> bytes{};
    std::int64_t result = 0;
    struct Recording : FileOperation {
        explicit Recording(std::int64_t& where)
            : FileOperation([](FileOperation& self, std::int64_t value) {
                  static_cast<Recording&>(self).result = value;
              }),
              result(where) {}
        std::int64_t& result;
    };
    Recording operation(result);
    std::array waiting{Recording(result), Recording(result), Recording(result)};
    const auto finish = [&] {
        if (engine->start(operation)) {
            std::abort();
        }
        while (operation.in_flight()) {
            loop.run_once();
        }
        return static_cast<int>(result);
    };
    EXPECT_EQ(allocations_after_warm_up([&] {
                  operation.to_open(path.c_str(), O_RDWR);
                  const int fd = finish();
                  operation.to_write(fd, "content", 7, 0);
                  finish();
                  operation.to_read(fd, bytes.data(), bytes.size(), 0);
                  finish();
                  operation.to_truncate(fd, 7);
                  finish();
                  operation.to_close(fd);
                  finish();
                  operation.to_read_file(path.c_str(), bytes.data(), bytes.size());
                  if (finish() != 7) {
                      std::abort();
                  }
                  write_byte(pipe.in);
                  operation.to_read(pipe.out.get(), bytes.data(), 1, 0);
                  finish();
                  static_cast<void>(engine->start(operation));
                  loop.run_once(0);
                  engine->cancel(operation);
                  while (operation.in_flight()) {
                      loop.run_once();
                  }
                  // Unlike the one with a position, these wait for their pipes in every round.
                  for (std::size_t i = 0; i < waiting.size(); ++i) {
                      waiting[i].to_read(silent[i].out.get(), &bytes[i], 1,
                                         FileOperation::current_position);
                      static_cast<void>(engine->start(waiting[i]));
                  }
                  loop.run_once(0);
                  for (Recording& each : waiting) {
                      engine->cancel(each);
                  }
                  for (const Recording& each : waiting) {
                      while (each.in_flight()) {
                          loop.run_once();
                      }
                  }
              }),
              0U);
    loop.detach_files();
}

TEST_F(NoAllocation, FileOperationsOnWorkerThreads) {
    // One thread: starting another one, when the first is busy, would allocate.
    count_file_operations(io::make_worker_engine({.max_threads = 1}));
}

TEST_F(NoAllocation, FileOperationsOnTheRing) {
    if (penstock::testing::Ring::refused()) {
        GTEST_SKIP() << "io_uring is refused here";
    }
    count_file_operations(io::make_uring_engine());
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
