// The duration of Poller::wait, with epoll_pwait2 and on kernels without it.

#include <penstock/io/poller.hpp>
#include <penstock/io/timer_queue.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <gtest/gtest.h>

#include "support/callbacks.hpp"
#include "support/descriptors.hpp"

namespace {

using penstock::io::monotonic_now;
using penstock::io::Poller;
using penstock::testing::SocketPair;
using penstock::testing::TestWatch;
namespace io = penstock::io;

constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();

/// Waits again after EINTR, which also a signal that stops and continues the process causes.
int wait_uninterrupted(Poller& poller, std::int64_t timeout_ns) {
    int count = 0;
    do {
        count = poller.wait(timeout_ns);
    } while (count < 0 && errno == EINTR);
    return count;
}

void expect_waits_never_end_early() {
    Poller poller;
    for (const std::int64_t timeout_ns : {1LL, 1'000LL, 250'000LL, 1'000'000LL, 2'500'001LL}) {
        const std::int64_t start = monotonic_now();
        EXPECT_EQ(wait_uninterrupted(poller, timeout_ns), 0);
        EXPECT_GE(monotonic_now() - start, timeout_ns);
    }
}

void expect_the_longest_wait_to_end_with_an_event() {
    Poller poller;
    const SocketPair pair;
    TestWatch watch;
    ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
    write_byte(pair.far);
    EXPECT_EQ(poller.wait(longest), 1);
    poller.dispatch();
    EXPECT_EQ(watch.calls(), 1U);
    poller.remove(watch);
}

/// Makes epoll_pwait2 fail with ENOSYS in this thread, as before Linux 5.11. False if a container
/// forbids filters.
bool forget_epoll_pwait2() {
    std::array instructions{
        sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))),
        sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1)),
        sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)),
        sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)),
    };
    const sock_fprog program{.len = instructions.size(), .filter = instructions.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Runs `body` in a thread for which the kernel has no epoll_pwait2. False if that is not possible.
template <typename Body> bool run_without_epoll_pwait2(Body body) {
    bool arranged = false;
    std::thread([&] {
        arranged = forget_epoll_pwait2();
        if (arranged) {
            body();
        }
    }).join();
    return arranged;
}

TEST(PollerTimeout, ZeroReturnsAtOnce) {
    Poller poller;
    EXPECT_EQ(poller.wait(0), 0);
}

TEST(PollerTimeout, WaitNeverEndsBeforeItsTime) {
    expect_waits_never_end_early();
}

TEST(PollerTimeout, LongestLimitIsValid) {
    expect_the_longest_wait_to_end_with_an_event();
}

TEST(PollerTimeout, WaitNeverEndsBeforeItsTimeOnOldKernels) {
    if (!run_without_epoll_pwait2(expect_waits_never_end_early)) {
        GTEST_SKIP() << "this machine allows no seccomp filter";
    }
}

TEST(PollerTimeout, LongestLimitIsValidOnOldKernels) {
    if (!run_without_epoll_pwait2(expect_the_longest_wait_to_end_with_an_event)) {
        GTEST_SKIP() << "this machine allows no seccomp filter";
    }
}

TEST(PollerTimeout, FallsBackWithoutLosingTheEventsOfTheFirstWait) {
    const bool arranged = run_without_epoll_pwait2([] {
        Poller poller;
        const SocketPair pair;
        TestWatch watch;
        ASSERT_FALSE(poller.add(watch, pair.near.get(), io::readable));
        write_byte(pair.far);
        EXPECT_EQ(poller.wait(1'000'000), 1);
        EXPECT_EQ(poller.wait(1'000'000), 1);
        poller.dispatch();
        EXPECT_EQ(watch.calls(), 1U);
        poller.remove(watch);
    });
    if (!arranged) {
        GTEST_SKIP() << "this machine allows no seccomp filter";
    }
}

} // namespace
