#include <penstock/io/blocked_signals.hpp>

#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>

namespace {

using penstock::io::BlockedSignals;

bool is_blocked(int signal_number) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, signal_number) == 1;
}

TEST(BlockedSignals, AThreadStartedMeanwhileBlocksSignalsForItsLife) {
    bool blocked = false;
    std::thread thread;
    {
        const BlockedSignals guard;
        thread = std::thread(
            [&] { blocked = is_blocked(SIGTERM) && is_blocked(SIGRTMAX) && !is_blocked(SIGBUS); });
    }
    thread.join();
    EXPECT_TRUE(blocked);
}

TEST(BlockedSignals, TheCallersOwnMaskIsRestored) {
    sigset_t own;
    sigset_t before;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &own, &before);
    {
        const BlockedSignals guard;
        EXPECT_TRUE(is_blocked(SIGTERM));
    }
    EXPECT_FALSE(is_blocked(SIGTERM));
    EXPECT_TRUE(is_blocked(SIGUSR2)) << "it was blocked before";
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace
