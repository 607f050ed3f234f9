#include <penstock/io/poller.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::Poller;
using penstock::testing::Descriptor;
using penstock::testing::SocketPair;
using penstock::testing::TestWatch;
using penstock::testing::Watchdog;
namespace io = penstock::io;

constexpr std::int64_t for_ever = -1;

/// Fetches the events that are ready now and runs the callbacks.
int turn(Poller& poller, std::int64_t timeout_ns = 0) {
    const int count = poller.wait(timeout_ns);
    poller.dispatch();
    return count;
}

TEST(Poller, ReportsAReadableDescriptor) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    EXPECT_EQ(turn(poller), 0);
    write_byte(pair.far);
    EXPECT_EQ(turn(poller, for_ever), 1);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::readable}));
    poller.remove(watch);
}

TEST(Poller, ANumberThatIsNotOpenIsRefusedBeforeATableGrowsForIt) {
    Poller poller;
    TestWatch watch;
    // A table for it would need more memory than a machine has: ENOMEM instead of EBADF.
    for (const std::uint32_t interest : {0U, std::uint32_t{io::readable}}) {
        EXPECT_EQ(poller.add(watch, std::numeric_limits<int>::max(), interest).value(), EBADF);
    }
    EXPECT_EQ(poller.watch_of(std::numeric_limits<int>::max()), nullptr);
}

TEST(Poller, ReportsUnreadDataAgain) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    write_byte(pair.far);
    turn(poller);
    turn(poller);
    EXPECT_EQ(watch.calls(), 2U);
    penstock::testing::drain(pair.near.get());
    turn(poller);
    EXPECT_EQ(watch.calls(), 2U);
    poller.remove(watch);
}

TEST(Poller, ReportsAWritableDescriptor) {
    Poller poller;
    const SocketPair pair;
    penstock::testing::fill(pair.near);
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::writable));
    EXPECT_EQ(turn(poller), 0) << "the socket's buffer is full";
    penstock::testing::drain(pair.far.get());
    EXPECT_EQ(turn(poller, for_ever), 1);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::writable}));
    poller.remove(watch);
}

TEST(Poller, ReportsBothInOneCall) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable | io::writable));
    write_byte(pair.far);
    turn(poller);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::readable | io::writable}));
    poller.remove(watch);
}

TEST(Poller, ReportsAHangUpWithoutInterestInIt) {
    Poller poller;
    SocketPair pair;
    penstock::testing::fill(pair.near);
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    pair.far.close();
    turn(poller);
    ASSERT_EQ(watch.calls(), 1U);
    EXPECT_TRUE((watch.events[0] & io::hung_up) != 0);
    EXPECT_TRUE((watch.events[0] & io::readable) != 0) << "the end of the stream is readable";
    poller.remove(watch);
}

TEST(Poller, ReportsAFailureOnAPipeWithoutReader) {
    Poller poller;
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    Descriptor reader(ends[0]);
    const Descriptor writer(ends[1]);
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, writer.get(), io::writable));
    reader.close();
    turn(poller);
    ASSERT_EQ(watch.calls(), 1U);
    EXPECT_TRUE((watch.events[0] & io::failed) != 0);
    poller.remove(watch);
}

TEST(Poller, UpdateChangesWhatIsReported) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    EXPECT_EQ(turn(poller), 0);
    ASSERT_FALSE(poller.update(watch, io::writable));
    turn(poller);
    ASSERT_FALSE(poller.update(watch, io::readable));
    EXPECT_EQ(turn(poller), 0);
    EXPECT_EQ(watch.events, (std::vector<std::uint32_t>{io::writable}));
    EXPECT_EQ(watch.interest, io::readable);
    poller.remove(watch);
}

TEST(Poller, InterestZeroReportsNotEvenAHangUpAndCanBeRaisedAgain) {
    Poller poller;
    SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    ASSERT_FALSE(poller.update(watch, 0));
    pair.far.close();
    EXPECT_EQ(turn(poller), 0);
    EXPECT_EQ(poller.watch_of(pair.near.get()), &watch);
    ASSERT_FALSE(poller.update(watch, io::readable));
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

TEST(Poller, AddWithoutInterestWaitsForAnUpdate) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    write_byte(pair.far);
    ASSERT_FALSE(poller.add(watch, pair.near.get(), 0));
    EXPECT_EQ(turn(poller), 0);
    ASSERT_FALSE(poller.update(watch, io::readable));
    EXPECT_EQ(turn(poller), 1);
    poller.remove(watch);
}

TEST(Poller, RemovedWatchGetsNoEventAndMayBeAddedAgain) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    write_byte(pair.far);
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    poller.remove(watch);
    poller.remove(watch);
    EXPECT_EQ(watch.fd, -1);
    EXPECT_EQ(poller.watch_of(pair.near.get()), nullptr);
    EXPECT_EQ(turn(poller), 0);
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

TEST(Poller, OwnerOfFindsOnlyWatchedNumbers) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    EXPECT_EQ(poller.watch_of(pair.near.get()), &watch);
    EXPECT_EQ(poller.watch_of(pair.far.get()), nullptr);
    EXPECT_EQ(poller.watch_of(-1), nullptr);
    EXPECT_EQ(poller.watch_of(1'000'000), nullptr);
    poller.remove(watch);
}

TEST(Poller, RefusesARegularFileWithEperm) {
    Poller poller;
    const Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    TestWatch watch;
    EXPECT_EQ(poller.add(watch, file.get(), io::readable), std::errc::operation_not_permitted);
    EXPECT_EQ(watch.fd, -1);
    EXPECT_EQ(poller.watch_of(file.get()), nullptr);
    poller.remove(watch);
}

TEST(Poller, RefusesAClosedOrNegativeDescriptorWithEbadf) {
    Poller poller;
    TestWatch watch;
    const int closed = penstock::testing::lowest_free_descriptor();
    EXPECT_EQ(poller.add(watch, closed, io::readable), std::errc::bad_file_descriptor);
    EXPECT_EQ(poller.add(watch, -1, io::readable), std::errc::bad_file_descriptor);
    EXPECT_EQ(poller.update(watch, io::readable), std::errc::bad_file_descriptor);
    EXPECT_EQ(watch.fd, -1);
}

TEST(Poller, UpdateOfADescriptorClosedWithoutRemoveIsAnError) {
    Poller poller;
    SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    pair.near.close();
    EXPECT_EQ(poller.update(watch, io::writable), std::errc::bad_file_descriptor);
    EXPECT_EQ(watch.interest, io::readable) << "a refused update changes nothing";
    EXPECT_FALSE(poller.update(watch, 0)) << "interest 0 needs no registration";
    poller.remove(watch);
}

TEST(Poller, InterruptKeepsUndeliveredEventsForTheNextWait) {
    Poller poller;
    const std::array<SocketPair, 3> pairs;
    std::vector<std::unique_ptr<TestWatch>> watches;
    for (const SocketPair& pair : pairs) {
        write_byte(pair.far);
        watches.push_back(std::make_unique<TestWatch>([&](TestWatch& self) {
            penstock::testing::drain(self.fd);
            poller.interrupt();
        }));
        ASSERT_FALSE(poller.add(*watches.back(), pair.near.get(), io::readable));
    }
    for (int left = 3; left > 0; --left) {
        EXPECT_EQ(turn(poller), left);
    }
    EXPECT_EQ(turn(poller), 0);
    for (const auto& watch : watches) {
        EXPECT_EQ(watch->calls(), 1U);
        poller.remove(*watch);
    }
}

TEST(Poller, DeliversMoreReadyDescriptorsThanOneWaitFetches) {
    constexpr std::size_t count = 300;
    Poller poller;
    const std::vector<SocketPair> pairs(count);
    std::vector<std::unique_ptr<TestWatch>> watches;
    for (const SocketPair& pair : pairs) {
        write_byte(pair.far);
        watches.push_back(std::make_unique<TestWatch>(
            [](TestWatch& self) { penstock::testing::drain(self.fd); }));
        ASSERT_FALSE(poller.add(*watches.back(), pair.near.get(), io::readable));
    }
    while (turn(poller) > 0) {
    }
    for (const auto& watch : watches) {
        EXPECT_EQ(watch->calls(), 1U);
        poller.remove(*watch);
    }
}

TEST(Poller, EdgeTriggeredWatchGetsOneEventForEachArrival) {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable, EPOLLET));
    write_byte(pair.far);
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(turn(poller), 0);
    write_byte(pair.far);
    EXPECT_EQ(turn(poller), 1);
    EXPECT_EQ(watch.calls(), 2U);
    poller.remove(watch);
}

TEST(Poller, WaitsWithoutLimitUntilAnotherThreadMakesSomethingReady) {
    const Watchdog watchdog;
    Poller poller;
    SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    std::thread writer([&] { write_byte(pair.far); });
    EXPECT_EQ(turn(poller, for_ever), 1);
    writer.join();
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

TEST(Poller, SignalEndsTheWaitWithMinusOneAndDeliversNothing) {
    const Watchdog watchdog(60);
    struct sigaction action{};
    struct sigaction before{};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART; // has no effect on epoll_wait
    ASSERT_EQ(sigaction(SIGVTALRM, &action, &before), 0);
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    // Every millisecond, so that one arrives during the wait.
    timer_t ticking{};
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGVTALRM;
    ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &ticking), 0);
    const itimerspec often{.it_interval = {.tv_sec = 0, .tv_nsec = 1'000'000},
                           .it_value = {.tv_sec = 0, .tv_nsec = 1'000'000}};
    ASSERT_EQ(timer_settime(ticking, 0, &often, nullptr), 0);
    const int count = poller.wait(for_ever);
    const int error = errno;
    timer_delete(ticking);
    EXPECT_EQ(count, -1);
    EXPECT_EQ(error, EINTR);
    poller.dispatch();
    EXPECT_EQ(watch.calls(), 0U);
    poller.remove(watch);
    sigaction(SIGVTALRM, &before, nullptr);
}

TEST(Poller, ThrowsEmfileWhenNoDescriptorIsLeft) {
    EXPECT_EQ(penstock::testing::error_with_descriptors_left(0, [] { const Poller poller; }),
              std::errc::too_many_files_open);
}

TEST(Poller, ClosesItsDescriptor) {
    const int number = penstock::testing::lowest_free_descriptor();
    {
        const Poller poller;
        EXPECT_EQ(poller.native_handle(), number);
    }
    EXPECT_EQ(penstock::testing::lowest_free_descriptor(), number);
}

} // namespace
