#pragma once

#include <csignal>

namespace penstock::detail {

/// Blocks SIGPIPE for this thread during a call that may raise it and has no flag to suppress it
/// (sendfile(2); writev(2) before Linux 6.18). If `errno` is EPIPE at the end, the destructor
/// consumes the signal that the call has raised.
///
/// The disposition of SIGPIPE belongs to the program: a library must not change it, nor require a
/// program to. A SIGPIPE that was pending before stays pending. The kernel sends SIGPIPE to the
/// calling thread, so other threads are not affected.
class SigpipeGuard {
public:
    SigpipeGuard() noexcept;
    ~SigpipeGuard();
    SigpipeGuard(const SigpipeGuard&) = delete;
    SigpipeGuard& operator=(const SigpipeGuard&) = delete;

private:
    sigset_t mask_{};
    bool was_pending_ = false;
};

} // namespace penstock::detail
