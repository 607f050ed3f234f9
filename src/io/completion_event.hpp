#pragma once

namespace penstock::io {

/// The eventfd through which completions reach a loop. `signal` from any thread.
class CompletionEvent {
public:
    /// Throws `std::system_error` when the kernel refuses an eventfd.
    CompletionEvent();
    ~CompletionEvent();
    CompletionEvent(const CompletionEvent&) = delete;
    CompletionEvent& operator=(const CompletionEvent&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return fd_; }

    void signal() noexcept;

    /// Makes the descriptor unreadable until the next signal.
    void clear() noexcept;

    /// Blocks until a signal has come since `clear`, until EINTR, or for so long; for -1 without end.
    void wait(int milliseconds = -1) const noexcept;

private:
    int fd_;
};

} // namespace penstock::io
