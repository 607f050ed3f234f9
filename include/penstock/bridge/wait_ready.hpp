#pragma once

#include <coroutine>
#include <cstdint>
#include <system_error>

#include <penstock/io/poller.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

/// The operation of `wait_ready`.
class [[nodiscard]] WaitReadyOperation final : public OperationBase, private io::Watch {
public:
    WaitReadyOperation(int fd, std::uint32_t interest) noexcept
        : OperationBase(&cancel), Watch(&on_ready), descriptor_(fd), interest_(interest) {}

    [[nodiscard]] bool await_ready() noexcept {
        if (context().cancelled()) {
            error_ = std::make_error_code(std::errc::operation_canceled);
        }
        return error_ && context().loop().consume_budget();
    }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (error_ || !begin()) {
            resume_soon();
        }
    }

    [[nodiscard]] Result<std::uint32_t> await_resume() const noexcept {
        if (error_) {
            return failure(error_);
        }
        return events_;
    }

private:
    /// Registers the watch. Returns whether the operation has to wait.
    [[nodiscard]] bool begin();

    static void on_ready(io::Watch& watch, std::uint32_t events);
    static void cancel(OperationBase& base) noexcept;

    int descriptor_;
    std::uint32_t interest_;
    std::uint32_t events_ = 0;
    std::error_code error_;
};

/// Waits until a descriptor of another library (libpq, libcurl, ALSA ...) is ready. `interest` is
/// `io::readable`, `io::writable` or both. Returns the bits that are ready, including `io::hung_up`
/// and `io::failed`. A regular file is always ready.
///
///     while (PQconnectPoll(connection) == PGRES_POLLING_READING) {
///         co_await unwrap(wait_ready(PQsocket(connection), io::readable));
///     }
///
/// The other library owns the descriptor and must keep it open until the operation has ended. Each
/// operation registers the descriptor and removes it again (two calls of epoll_ctl(2)). The streams
/// of this library do not need `wait_ready`.
///
/// Errors: `device_or_resource_busy` if another task of this loop waits for the descriptor, those
/// of epoll_ctl(2), such as `bad_file_descriptor`, and `operation_canceled`.
[[nodiscard]] inline WaitReadyOperation wait_ready(int fd, std::uint32_t interest) noexcept {
    return {fd, interest};
}

} // namespace penstock
