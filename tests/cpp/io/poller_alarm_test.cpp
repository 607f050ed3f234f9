// The timer descriptor that ends the waits of a Poller: when it is set, when it expires early, and
// who owns it after a fork.

#include <penstock/io/poller.hpp>
#include <penstock/io/timer_queue.hpp>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/child_process.hpp"
#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::monotonic_now;
using penstock::io::MonotonicTime;
using penstock::io::Poller;
using penstock::testing::await_expiry_of_the_alarm;
using penstock::testing::Descriptor;
using penstock::testing::descriptor_of;
using penstock::testing::error_with_descriptors_left;
using penstock::testing::in_child_process;
using penstock::testing::SocketPair;
using penstock::testing::TestWatch;
using penstock::testing::Watchdog;
namespace io = penstock::io;

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t hour = 3600'000 * millisecond;

/// A poller with a socket, whose waits can be ended by an event.
struct PollerAlarm : testing::Test {
    PollerAlarm() { EXPECT_FALSE(poller.add(watch, pair.near.get(), io::readable)); }
    ~PollerAlarm() override { poller.remove(watch); }
    PollerAlarm(const PollerAlarm&) = delete;
    PollerAlarm& operator=(const PollerAlarm&) = delete;

    /// Waits with this limit. An event ends the wait at once.
    bool wait_for_event(std::int64_t timeout_ns) {
        write_byte(pair.far);
        const std::size_t before = watch.calls();
        while (poller.wait(timeout_ns) < 0 && errno == EINTR) {
        }
        poller.dispatch();
        return watch.calls() == before + 1;
    }

    /// Waits without an event. Whether the wait ended by its time-out, and not before it.
    bool wait_in_vain(std::int64_t timeout_ns) {
        const MonotonicTime start = monotonic_now();
        int count = 0;
        do {
            count = poller.wait(timeout_ns);
        } while (count < 0 && errno == EINTR);
        return count == 0 && monotonic_now() - start >= timeout_ns;
    }

    /// The time until the descriptor expires, 0 if it is not set.
    [[nodiscard]] static std::int64_t remaining() {
        itimerspec setting{};
        EXPECT_EQ(timerfd_gettime(alarm(), &setting), 0);
        return setting.it_value.tv_sec * 1000 * millisecond + setting.it_value.tv_nsec;
    }

    [[nodiscard]] static int alarm() { return descriptor_of("anon_inode:[timerfd]"); }

    const Watchdog watchdog;
    Poller poller;
    const SocketPair pair;
    TestWatch watch{[](TestWatch& self) { penstock::testing::drain(self.fd); }};
};

TEST_F(PollerAlarm, IsSetForTheFirstLongWaitOnly) {
    EXPECT_EQ(remaining(), 0);
    EXPECT_TRUE(wait_for_event(millisecond / 2));
    EXPECT_EQ(remaining(), 0) << "a short wait has a time-out of its own";
    EXPECT_TRUE(wait_for_event(hour));
    const std::int64_t first = remaining();
    EXPECT_GT(first, 0);
    EXPECT_LE(first, hour);
    EXPECT_TRUE(wait_for_event(2 * hour));
    EXPECT_LE(remaining(), first) << "a later deadline does not move it";
    EXPECT_TRUE(wait_for_event(hour / 2));
    EXPECT_LE(remaining(), hour / 2) << "an earlier one does";
    EXPECT_GT(remaining(), 0);
}

TEST_F(PollerAlarm, WaitWithoutALimitDoesNotSetIt) {
    EXPECT_TRUE(wait_for_event(-1));
    EXPECT_EQ(remaining(), 0);
}

TEST_F(PollerAlarm, EarlierDeadlineEndsAWaitThatFollowsALaterOne) {
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_TRUE(wait_in_vain(3 * millisecond));
}

TEST_F(PollerAlarm, EarlierExpiryEndsNoWait) {
    EXPECT_TRUE(wait_for_event(5 * millisecond));
    EXPECT_TRUE(wait_in_vain(20 * millisecond));
    EXPECT_TRUE(wait_for_event(5 * millisecond));
    EXPECT_TRUE(wait_in_vain(20 * millisecond));
}

TEST_F(PollerAlarm, ExpiryBetweenWaitsEndsNoWait) {
    EXPECT_TRUE(wait_for_event(2 * millisecond));
    await_expiry_of_the_alarm();
    EXPECT_TRUE(wait_in_vain(5 * millisecond));
}

TEST_F(PollerAlarm, ExpiryThatIsFetchedWithAnEventEndsNoLaterWait) {
    EXPECT_TRUE(wait_for_event(2 * millisecond));
    await_expiry_of_the_alarm();
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_TRUE(wait_in_vain(5 * millisecond));
}

TEST_F(PollerAlarm, ExpiryThatAnInterruptDropsEndsNoLaterWait) {
    EXPECT_TRUE(wait_for_event(200 * millisecond));
    await_expiry_of_the_alarm();
    EXPECT_EQ(poller.wait(0), 1) << "the expiry";
    poller.interrupt();
    poller.dispatch();
    EXPECT_TRUE(wait_in_vain(5 * millisecond));
}

TEST_F(PollerAlarm, AnEventOfAnotherWatchAtTheExpiryIsNotLost) {
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(wait_for_event(2 * millisecond));
        await_expiry_of_the_alarm();
        ASSERT_TRUE(wait_for_event(2 * millisecond));
    }
}

TEST_F(PollerAlarm, SurvivesAMoveToAnotherEpollInstance) {
    EXPECT_TRUE(wait_for_event(hour));
    SocketPair orphan;
    const Descriptor copy(::fcntl(orphan.near.get(), F_DUPFD_CLOEXEC, 0));
    TestWatch gone;
    ASSERT_FALSE(poller.add(gone, orphan.near.get(), io::readable));
    orphan.near.close();
    poller.remove(gone);
    write_byte(orphan.far);
    ASSERT_EQ(poller.wait(0), 1) << "the orphan's event";
    poller.dispatch();
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
}

TEST_F(PollerAlarm, TimeOutsReplaceItAfterItsNumberWasClosed) {
    EXPECT_TRUE(wait_for_event(hour));
    ASSERT_EQ(::close(alarm()), 0);
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
    EXPECT_TRUE(wait_for_event(hour));
}

TEST_F(PollerAlarm, TimeOutsReplaceItAfterAnotherFileGotItsNumber) {
    const int number = alarm();
    const Descriptor other(::dup3(pair.far.get(), number, O_CLOEXEC));
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
    EXPECT_TRUE(wait_for_event(hour));
    TestWatch writer;
    ASSERT_FALSE(poller.add(writer, number, io::writable));
    EXPECT_EQ(poller.wait(hour), 1);
    poller.dispatch();
    EXPECT_EQ(writer.calls(), 1U);
    poller.remove(writer);
}

TEST_F(PollerAlarm, AForkedChildDoesNotMoveTheParentsDeadline) {
    EXPECT_TRUE(wait_for_event(300 * millisecond));
    EXPECT_EQ(in_child_process(
                  [&] { return wait_in_vain(2 * millisecond) && wait_for_event(hour) ? 0 : 1; }),
              0);
    EXPECT_TRUE(wait_in_vain(300 * millisecond));
}

TEST_F(PollerAlarm, AForkedChildHasItsOwn) {
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_EQ(in_child_process([&] {
                  TestWatch added;
                  const SocketPair more;
                  // `add` leaves the parent's epoll instance before a wait does.
                  if (poller.add(added, more.near.get(), io::readable)) {
                      return 1;
                  }
                  return wait_in_vain(2 * millisecond) && wait_for_event(hour) &&
                                 wait_in_vain(2 * millisecond)
                             ? 0
                             : 2;
              }),
              0);
    EXPECT_GT(remaining(), hour / 2);
}

TEST_F(PollerAlarm, AForkedChildWithoutDescriptorsUsesTimeOuts) {
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_EQ(in_child_process([&] {
                  {
                      const penstock::testing::NoDescriptors none;
                      if (poller.wait(millisecond) != 0) { // the child cannot leave yet
                          return 1;
                      }
                  }
                  return wait_in_vain(2 * millisecond) && wait_for_event(hour) ? 0 : 2;
              }),
              0);
    EXPECT_TRUE(wait_for_event(hour));
    EXPECT_TRUE(wait_in_vain(2 * millisecond));
}

TEST(PollerWithoutAlarm, UsesTimeOuts) {
    const Watchdog watchdog;
    EXPECT_FALSE(error_with_descriptors_left(1, [] {
        Poller poller;
        const MonotonicTime start = monotonic_now();
        while (poller.wait(2 * millisecond) < 0 && errno == EINTR) {
        }
        EXPECT_GE(monotonic_now() - start, 2 * millisecond);
    }));
}

} // namespace
