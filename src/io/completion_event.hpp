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

    /// Blocks until a signal has come since `clear`, or until EINTR.
    void wait() const noexcept;

private:
    int fd_;
};

} // namespace penstock::io
