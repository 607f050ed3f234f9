#pragma once

#include <penstock/io/poller.hpp>

namespace penstock::io {

/// Delivers signals to a loop as bytes in a non-blocking pipe (the "self-pipe trick").
///
/// Why not signalfd: it needs the signals blocked in every thread, and child processes and the
/// threads that a library starts inherit the mask. It also cannot be shared with a language runtime
/// that owns the handlers. A handler that writes one byte needs no mask, and such a runtime can use
/// the write end (CPython's `signal.set_wakeup_fd`).
///
/// Each byte is one signal number. Bytes that find the pipe full are dropped: after 64 KiB of
/// undelivered signals they carry no information.
class SignalPipe {
public:
    /// Called on the loop's thread with each signal number read from the pipe.
    using OnSignal = void (*)(SignalPipe&, int signal_number);

    /// Throws `std::system_error` when the kernel refuses the descriptors.
    SignalPipe(Poller& poller, OnSignal on_signal);
    ~SignalPipe();
    SignalPipe(const SignalPipe&) = delete;
    SignalPipe& operator=(const SignalPipe&) = delete;

    /// A signal handler writes a signal number to it as one byte. Non-blocking, close-on-exec.
    [[nodiscard]] int write_end() const noexcept { return write_fd_; }

    /// Installs a handler that writes `signal_number` to the pipe (SA_RESTART). One pipe in the
    /// process owns a signal at a time. Errors: EBUSY if another one does, EINVAL for SIGKILL and
    /// SIGSTOP.
    [[nodiscard]] std::error_code subscribe(int signal_number);

    /// Restores the handler from before `subscribe`. No effect without a subscription.
    void unsubscribe(int signal_number) noexcept;

private:
    static void on_readable(Watch& watch, std::uint32_t events);

    struct ReadEnd : Watch {
        explicit ReadEnd(SignalPipe& owner) noexcept : Watch(&on_readable), pipe(owner) {}
        SignalPipe& pipe;
    };

    Poller& poller_;
    OnSignal on_signal_;
    ReadEnd read_end_;
    int write_fd_ = -1;
};

} // namespace penstock::io
