#include <penstock/io/event_loop.hpp>
#include <penstock/io/signal_pipe.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/descriptors.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::Poller;
using penstock::io::SignalPipe;
using penstock::testing::Watchdog;

/// A pipe that remembers the signals it was told of.
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

/// Installs a handler of the test's own for as long as it lives.
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

TEST(SignalPipe, TellsTheLoopOfASubscribedSignal) {
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
    constexpr std::size_t burst = 3000; // the smallest pipe takes 4096 bytes
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
    EXPECT_EQ(first.seen.size(), 1U) << "who does not own a signal cannot give it up";
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
    ASSERT_FALSE(pipe.subscribe(SIGUSR1)) << "once more is no error";
    pipe.unsubscribe(SIGUSR1);
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
    raise(SIGUSR1);
    turn(poller);
    EXPECT_TRUE(pipe.seen.empty());
    pipe.unsubscribe(SIGUSR1);
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
}

TEST(SignalPipe, DestructionRestoresEveryHandlerAndClosesBothEnds) {
    const OwnHandler own(SIGUSR1);
    const Handler before = handler_of(SIGUSR2);
    const std::size_t descriptors = penstock::testing::open_descriptors();
    Poller poller;
    {
        RecordingPipe pipe(poller);
        ASSERT_FALSE(pipe.subscribe(SIGUSR1));
        ASSERT_FALSE(pipe.subscribe(SIGUSR2));
    }
    EXPECT_EQ(handler_of(SIGUSR1), &ignore_signal);
    EXPECT_EQ(handler_of(SIGUSR2), before);
    EXPECT_EQ(penstock::testing::open_descriptors(), descriptors + 1) << "the poller's own";
    RecordingPipe next(poller);
    EXPECT_FALSE(next.subscribe(SIGUSR1));
}

TEST(SignalPipe, RefusesSignalsThatNobodyCanHandle) {
    Poller poller;
    RecordingPipe pipe(poller);
    RecordingPipe other(poller);
    for (const int number : {SIGKILL, SIGSTOP, 0, -1, NSIG, 1000}) {
        EXPECT_EQ(pipe.subscribe(number), std::errc::invalid_argument) << number;
        EXPECT_EQ(other.subscribe(number), std::errc::invalid_argument)
            << "a refused subscription owns nothing: " << number;
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

TEST(SignalPipe, NoLateHandlerWritesToWhatHasItsNumberNext) {
    const Watchdog watchdog;
    const OwnHandler own(SIGUSR1);
    Poller poller;
    std::atomic<bool> enough{false};
    std::vector<std::thread> raisers(4);
    for (std::thread& raiser : raisers) {
        raiser = std::thread([&] {
            while (!enough) {
                raise(SIGUSR1);
            }
        });
    }
    int strays = 0;
    for (int round = 0; round < 3000; ++round) {
        {
            RecordingPipe pipe(poller);
            EXPECT_FALSE(pipe.subscribe(SIGUSR1));
        }
        std::array<int, 2> victim{};
        ASSERT_EQ(pipe2(victim.data(), O_NONBLOCK | O_CLOEXEC), 0);
        std::this_thread::yield();
        char byte = 0;
        strays += ::read(victim[0], &byte, 1) == 1 ? 1 : 0;
        ::close(victim[0]);
        ::close(victim[1]);
    }
    enough = true;
    for (std::thread& raiser : raisers) {
        raiser.join();
    }
    EXPECT_EQ(strays, 0);
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
