#pragma once

#include <csignal>
#include <initializer_list>

#include <pthread.h>

namespace penstock::io {

/// Blocks all signals but those of faults in this thread while it lives, and so in every thread
/// that is started meanwhile: a new thread inherits the mask. The program's handlers keep running
/// on the program's own threads.
class BlockedSignals {
public:
    BlockedSignals() noexcept {
        sigset_t all;
        sigfillset(&all);
        // A fault of the thread itself. The kernel ends the process if it is blocked, without
        // calling the handler that may mend it, or tell of it.
        for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) {
            sigdelset(&all, fault);
        }
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    sigset_t before_{};
};

} // namespace penstock::io
