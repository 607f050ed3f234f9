#include "detail/pipe_signal.hpp"

#include <cerrno>
#include <ctime>

#include <pthread.h>

namespace penstock::detail {

namespace {

sigset_t only_pipe_signal() noexcept {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

bool is_pending() noexcept {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

} // namespace

WithoutPipeSignal::WithoutPipeSignal() noexcept {
    const sigset_t pipe_signal = only_pipe_signal();
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &mask_);
    // What was not blocked cannot have been pending.
    was_pending_ = sigismember(&mask_, SIGPIPE) == 1 && is_pending();
}

WithoutPipeSignal::~WithoutPipeSignal() {
    const int saved = errno;
    if (saved == EPIPE && !was_pending_) {
        const sigset_t pipe_signal = only_pipe_signal();
        const timespec at_once{};
        while (sigtimedwait(&pipe_signal, nullptr, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    errno = saved;
}

} // namespace penstock::detail
