#pragma once

#include <csignal>

namespace penstock::detail {

/// Keeps SIGPIPE from this thread while a call is made that may raise it and has no flag against that
/// (sendfile(2); writev(2) before Linux 6.18). What the call has raised is taken back at the end, if
/// `errno` is EPIPE then.
///
/// A library may not ask its program to ignore SIGPIPE, nor do so itself: a disposition belongs to the
/// process. A SIGPIPE that the thread had blocked and pending before is somebody else's and stays. The
/// kernel sends this signal to the thread that made the call, so no other thread has to be thought of.
class WithoutPipeSignal {
public:
    WithoutPipeSignal() noexcept;
    ~WithoutPipeSignal();
    WithoutPipeSignal(const WithoutPipeSignal&) = delete;
    WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

private:
    sigset_t mask_{};
    bool was_pending_ = false;
};

} // namespace penstock::detail
