#pragma once

namespace penstock::io {

/// An eventfd that makes a loop notice completions. `signal` may be called from any thread.
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

    /// Blocks until `signal` is called or was called since `clear`, until EINTR, or for
    /// `milliseconds`; -1: without limit.
    void wait(int milliseconds = -1) const noexcept;

private:
    int fd_;
};

} // namespace penstock::io
