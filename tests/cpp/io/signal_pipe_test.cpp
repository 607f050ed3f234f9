#include <penstock/io/event_loop.hpp>
#include <penstock/io/signal_pipe.hpp>
#include <penstock/io/signal_route.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::Poller;
using penstock::io::SignalPipe;
using penstock::testing::Watchdog;

/// A pipe that records the signals it delivers.
struct RecordingPipe : SignalPipe {
    explicit RecordingPipe(Poller& poller) : SignalPipe(poller, &record) {}

    static void record(SignalPipe& pipe, int signal_number) {
        static_cast<RecordingPipe&>(pipe).seen.push_back(signal_number);
    }

    std::vector<int> seen;
};

void turn(Poller& poller) {
    poller.wait(0);
    poller.dispatch();
}

void ignore_signal(int /*signal_number*/) {}

using Handler = void (*)(int);

Handler handler_of(int signal_number) {
    struct sigaction action{};
    sigaction(signal_number, nullptr, &action);
    return action.sa_handler;
}

/// Installs a handler of the test for the lifetime of this object.
struct OwnHandler {
    explicit OwnHandler(int signal_number) : number(signal_number) {
        struct sigaction action{};
        action.sa_handler = &ignore_signal;
        sigaction(number, &action, &before);
    }
    ~OwnHandler() { sigaction(number, &before, nullptr); }
    OwnHandler(const OwnHandler&) = delete;
    OwnHandler& operator=(const OwnHandler&) = delete;

    int number;
    struct sigaction before{};
};

TEST(SignalPipe, DeliversASubscribedSignalToTheLoop) {
    Poller poller;
    RecordingPipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    raise(SIGUSR1);
    EXPECT_TRUE(pipe.seen.empty()) << "only the loop delivers";
    turn(poller);
    EXPECT_EQ(pipe.seen, (std::vector{SIGUSR1}));
    turn(poller);
    EXPECT_EQ(pipe.seen.size(), 1U);
}

TEST(SignalPipe, KeepsTheOrderOfDifferentSignals) {
    Poller poller;
    RecordingPipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    ASSERT_FALSE(pipe.subscribe(SIGUSR2));
    ASSERT_FALSE(pipe.subscribe(SIGRTMAX));
    const std::vector<int> sent{SIGUSR2, SIGUSR1, SIGRTMAX, SIGUSR1, SIGUSR2};
    for (const int number : sent) {
        raise(number);
    }
    turn(poller);
    EXPECT_EQ(pipe.seen, sent);
}

TEST(SignalPipe, BurstOfSignalsHidesNoOtherSignal) {
    constexpr std::size_t burst = 3000; // the smallest pipe holds 4096 bytes
    Poller poller;
    RecordingPipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    ASSERT_FALSE(pipe.subscribe(SIGTERM));
    for (std::size_t i = 0; i < burst; ++i) {
        raise(SIGUSR1);
    }
    raise(SIGTERM);
    for (std::size_t i = 0; i < burst && pipe.seen.size() <= burst; ++i) {
        turn(poller);
    }
    ASSERT_EQ(pipe.seen.size(), burst + 1);
    EXPECT_EQ(pipe.seen.back(), SIGTERM);
}

TEST(SignalPipe, FullPipeDropsTheRestAndKeepsErrno) {
    Poller poller;
    RecordingPipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    const std::array<char, 4096> block{SIGUSR2};
    while (::write(pipe.write_end(), block.data(), block.size()) > 0) {
    }
    while (::write(pipe.write_end(), block.data(), 1) > 0) {
    }
    errno = ENOTTY;
    raise(SIGUSR1);
    EXPECT_EQ(errno, ENOTTY);
}

TEST(SignalPipe, SignalOfAnotherThreadWakesABlockedLoop) {
    const Watchdog watchdog;
    constexpr std::size_t count = 300;
    EventLoop loop;
    RecordingPipe pipe(loop.poller());
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    std::atomic<std::size_t> seen{0};
    std::thread other([&] {
        for (std::size_t number = 1; number <= count; ++number) {
            raise(SIGUSR1);
            while (seen.load() < number) {
                std::this_thread::yield();
            }
        }
    });
    while (seen.load() < count) {
        loop.run_once();
        seen.store(pipe.seen.size());
    }
    other.join();
    EXPECT_EQ(pipe.seen.size(), count);
}

TEST(SignalPipe, ForwardsBytesThatALanguageRuntimeWrites) {
    Poller poller;
    const RecordingPipe pipe(poller);
    const std::array<unsigned char, 3> numbers{SIGINT, SIGTERM, 64};
    ASSERT_EQ(::write(pipe.write_end(), numbers.data(), numbers.size()), 3);
    turn(poller);
    EXPECT_EQ(pipe.seen, (std::vector{SIGINT, SIGTERM, 64}));
}

TEST(SignalPipe, WriteEndIsNonBlockingAndCloseOnExec) {
    Poller poller;
    const RecordingPipe pipe(poller);
    EXPECT_NE(fcntl(pipe.write_end(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(pipe.write_end(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SignalPipe, OnePipeOwnsASignalAtATime) {
    Poller poller;
    RecordingPipe first(poller);
    RecordingPipe second(poller);
    ASSERT_FALSE(first.subscribe(SIGUSR1));
    EXPECT_EQ(second.subscribe(SIGUSR1), std::errc::device_or_resource_busy);
    second.unsubscribe(SIGUSR1);
    raise(SIGUSR1);
    turn(poller);
    EXPECT_EQ(first.seen.size(), 1U) << "only the owner of a signal can release it";
    first.unsubscribe(SIGUSR1);
    ASSERT_FALSE(second.subscribe(SIGUSR1));
    raise(SIGUSR1);
    turn(poller);
    EXPECT_EQ(first.seen.size(), 1U);
    EXPECT_EQ(second.seen.size(), 1U);
}

TEST(SignalPipe, UnsubscribeRestoresTheHandlerThatWasThereBefore) {
    const OwnHandler own(SIGUSR1);
    Poller poller;
    RecordingPipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    EXPECT_NE(handler_of(SIGUSR1), &ignore_signal);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1)) << "a repeated subscription is no error";
    pipe.unsubscribe(SIGUSR1);
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
    raise(SIGUSR1);
    turn(poller);
    EXPECT_TRUE(pipe.seen.empty());
    pipe.unsubscribe(SIGUSR1);
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
}

TEST(SignalPipe, DestructorRestoresEveryHandlerAndClosesBothEnds) {
    const OwnHandler own(SIGUSR1);
    const Handler before = handler_of(SIGUSR2);
    Poller poller;
    const std::size_t descriptors = penstock::testing::open_descriptors();
    {
        RecordingPipe pipe(poller);
        ASSERT_FALSE(pipe.subscribe(SIGUSR1));
        ASSERT_FALSE(pipe.subscribe(SIGUSR2));
    }
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
    EXPECT_EQ(handler_of(SIGUSR2), before);
    EXPECT_EQ(penstock::testing::open_descriptors(), descriptors);
    RecordingPipe next(poller);
    EXPECT_FALSE(next.subscribe(SIGUSR1));
}

TEST(SignalPipe, RefusesSignalsThatCannotBeHandled) {
    Poller poller;
    RecordingPipe pipe(poller);
    RecordingPipe other(poller);
    for (const int number : {SIGKILL, SIGSTOP, 0, -1, NSIG, 1000}) {
        EXPECT_EQ(pipe.subscribe(number), std::errc::invalid_argument) << number;
        EXPECT_EQ(other.subscribe(number), std::errc::invalid_argument)
            << "a refused subscription owns no signal: " << number;
        pipe.unsubscribe(number);
    }
}

TEST(SignalPipe, CallbackMayUnsubscribe) {
    struct OncePipe : SignalPipe {
        explicit OncePipe(Poller& poller)
            : SignalPipe(poller, [](SignalPipe& pipe, int signal_number) {
                  ++static_cast<OncePipe&>(pipe).calls;
                  pipe.unsubscribe(signal_number);
              }) {}
        int calls = 0;
    };
    const OwnHandler own(SIGUSR1);
    Poller poller;
    OncePipe pipe(poller);
    ASSERT_FALSE(pipe.subscribe(SIGUSR1));
    raise(SIGUSR1);
    turn(poller);
    raise(SIGUSR1);
    turn(poller);
    EXPECT_EQ(pipe.calls, 1);
}

/// Whether a thread of this process sleeps in the kernel.
bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") S ") != std::string::npos;
}

TEST(SignalRoute, RemovalWaitsForRunningHandlers) {
    const Watchdog watchdog;
    const OwnHandler own(SIGUSR1);
    // A full pipe that blocks holds the handler between reading its descriptor and writing.
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const auto capacity = static_cast<std::size_t>(fcntl(ends[1], F_SETPIPE_SZ, 4096));
    const std::vector<char> full(capacity, 0);
    ASSERT_EQ(::write(ends[1], full.data(), full.size()), static_cast<ssize_t>(full.size()));
    ASSERT_FALSE(penstock::io::route_signal(SIGUSR1, ends[1]));

    std::atomic<pid_t> raiser_number{0};
    std::thread raiser([&] {
        raiser_number = static_cast<pid_t>(syscall(SYS_gettid)); // gettid() came with glibc 2.30
        raise(SIGUSR1);
    });
    while (raiser_number == 0 || !sleeps(raiser_number)) {
        std::this_thread::yield();
    }
    std::atomic<bool> ended{false};
    std::thread remover([&] {
        penstock::io::unroute_signal(SIGUSR1, ends[1]);
        ended = true;
    });
    while (handler_of(SIGUSR1) != &ignore_signal) {
        std::this_thread::yield();
    }
    // A removal that did not wait for the handler would end during these turns.
    for (int turn = 0; turn < 1000 && !ended; ++turn) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(ended) << "the route ended before a handler that was about to write";
    std::vector<char> drained(capacity);
    ASSERT_EQ(::read(ends[0], drained.data(), drained.size()), static_cast<ssize_t>(capacity));
    remover.join();
    raiser.join();
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST(SignalPipe, ThrowsEmfileAndLeavesNothingOpen) {
    Poller poller;
    const std::size_t before = penstock::testing::open_descriptors();
    EXPECT_EQ(penstock::testing::error_with_descriptors_left(
                  1, [&] { const RecordingPipe pipe(poller); }),
              std::errc::too_many_files_open);
    EXPECT_EQ(penstock::testing::open_descriptors(), before);
}

} // namespace
