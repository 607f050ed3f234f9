#include "detail/io/sigpipe_guard.hpp"

#include <cerrno>
#include <ctime>

#include <pthread.h>

namespace penstock::detail {

namespace {

sigset_t sigpipe_set() noexcept {
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

SigpipeGuard::SigpipeGuard() noexcept {
    const sigset_t sigpipe = sigpipe_set();
    pthread_sigmask(SIG_BLOCK, &sigpipe, &mask_);
    // An unblocked signal cannot have been pending.
    was_pending_ = sigismember(&mask_, SIGPIPE) == 1 && is_pending();
}

SigpipeGuard::~SigpipeGuard() {
    const int saved = errno;
    if (saved == EPIPE && !was_pending_) {
        const sigset_t sigpipe = sigpipe_set();
        const timespec at_once{};
        while (sigtimedwait(&sigpipe, nullptr, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    errno = saved;
}

} // namespace penstock::detail
