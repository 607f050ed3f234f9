#pragma once

#include <penstock/io/poller.hpp>

namespace penstock::io {

/// Brings signals into a loop as bytes in a non-blocking pipe (the "self-pipe").
///
/// Why not signalfd: it needs the signals blocked in every thread, and a blocked mask is inherited by
/// every child process and every thread that a library starts; it also cannot be shared with a
/// language runtime that owns the handlers. A handler that writes one byte needs none of that, and
/// the write end can be given to such a runtime (CPython's `signal.set_wakeup_fd`).
///
/// Each byte is one signal number. When the pipe is full further bytes are dropped: more than 64 KiB
/// of undelivered signals say nothing that the first ones did not.
class SignalPipe {
public:
    /// Called on the loop's thread with each signal number read from the pipe.
    using OnSignal = void (*)(SignalPipe&, int signal_number);

    /// Throws `std::system_error` when the kernel refuses the descriptors.
    SignalPipe(Poller& poller, OnSignal on_signal);
    ~SignalPipe();
    SignalPipe(const SignalPipe&) = delete;
    SignalPipe& operator=(const SignalPipe&) = delete;

    /// Where a signal handler writes a signal number as one byte; non-blocking, close-on-exec.
    [[nodiscard]] int write_end() const noexcept { return write_fd_; }

    /// Installs a handler that writes `signal_number` here (SA_RESTART). One pipe in the process
    /// owns a signal at a time; EBUSY when another one does, EINVAL for SIGKILL and its like.
    [[nodiscard]] std::error_code subscribe(int signal_number);

    /// Restores the handler that was there before `subscribe`; nothing happens without one.
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
