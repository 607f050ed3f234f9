// Signals as awaitable events.

#include <penstock/signal.hpp>
#include <penstock/task/run.hpp>

#include <csignal>
#include <cstddef>

#include <gtest/gtest.h>

namespace {

using penstock::Result;
using penstock::run;
using penstock::Signal;
using penstock::Task;

volatile std::sig_atomic_t earlier_handler_calls = 0;

void earlier_handler(int /*number*/) {
    earlier_handler_calls = earlier_handler_calls + 1;
}

TEST(Signal, ArrivalsAreQueuedInOrderBetweenWaits) {
    const auto body = []() -> Task<void> {
        Result<Signal> signals = Signal::on({SIGUSR1, SIGUSR2});
        EXPECT_TRUE(signals);
        for (const int number : {SIGUSR1, SIGUSR2, SIGUSR2, SIGUSR1}) {
            EXPECT_EQ(std::raise(number), 0);
        }
        EXPECT_EQ(co_await signals->wait(), SIGUSR1);
        EXPECT_EQ(co_await signals->wait(), SIGUSR2);
        EXPECT_EQ(co_await signals->wait(), SIGUSR2);
        EXPECT_EQ(co_await signals->wait(), SIGUSR1);
    };
    run(body());
}

TEST(Signal, TheOldDispositionIsRestored) {
    ASSERT_NE(std::signal(SIGUSR1, &earlier_handler), SIG_ERR);
    earlier_handler_calls = 0;
    {
        const Result<Signal> signals = Signal::on({SIGUSR1});
        ASSERT_TRUE(signals);
        std::raise(SIGUSR1);
        EXPECT_EQ(earlier_handler_calls, 0);
    }
    std::raise(SIGUSR1);
    EXPECT_EQ(earlier_handler_calls, 1);
    std::signal(SIGUSR1, SIG_DFL);
}

TEST(Signal, ASignalHasOneOwner) {
    const Result<Signal> first = Signal::on({SIGUSR1});
    ASSERT_TRUE(first);
    EXPECT_EQ(Signal::on({SIGUSR2, SIGUSR1}).error(), std::errc::device_or_resource_busy);
    // The refused call has left SIGUSR2 free.
    EXPECT_TRUE(Signal::on({SIGUSR2}));
}

TEST(Signal, RefusesSignalsThatCannotBeHandled) {
    EXPECT_EQ(Signal::on({SIGKILL}).error(), std::errc::invalid_argument);
    EXPECT_EQ(Signal::on({0}).error(), std::errc::invalid_argument);
    EXPECT_EQ(Signal::on({9999}).error(), std::errc::invalid_argument);
}

TEST(Signal, AMovedObjectKeepsItsSignals) {
    const auto body = []() -> Task<void> {
        Signal first = Signal::on({SIGUSR1}).value();
        Signal second(std::move(first));
        std::raise(SIGUSR1);
        EXPECT_EQ(co_await second.wait(), SIGUSR1);
        second = Signal::on({SIGUSR2}).value();
        std::raise(SIGUSR2);
        EXPECT_EQ(co_await second.wait(), SIGUSR2);
    };
    run(body());
}

TEST(Signal, AssigningAnObjectReleasesItsSignals) {
    Signal first = Signal::on({SIGUSR1}).value();
    Signal second = Signal::on({SIGUSR2}).value();
    first = std::move(second);
    EXPECT_TRUE(Signal::on({SIGUSR1})) << "nobody has it any more";
    Signal& same = first;
    first = std::move(same);
    EXPECT_EQ(Signal::on({SIGUSR2}).error(), std::errc::device_or_resource_busy);
}

} // namespace
