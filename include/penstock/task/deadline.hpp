#pragma once

#include <chrono>
#include <functional>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock {

class Deadline;

namespace detail {
template <typename Body>
using DeadlineBodyResult = typename std::invoke_result_t<Body&, Deadline&>::value_type;
} // namespace detail

/// The deadline of a `with_deadline`. The body may move it: a server that closes idle connections
/// moves the deadline with each message, which is cheaper than a `timeout` for each.
///
/// Thread safety: only on the thread of its loop, and only while the body runs.
class Deadline {
public:
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    /// Moves the deadline to this long from now. Does nothing once the deadline has passed. Moving
    /// it to an earlier time may throw `std::bad_alloc`.
    template <typename Rep, typename Period>
    void expire_after(std::chrono::duration<Rep, Period> duration) {
        move_to(detail::deadline_after(duration));
    }

    /// The same with a point in time.
    template <typename Duration>
    void expire_at(std::chrono::time_point<std::chrono::steady_clock, Duration> deadline) {
        move_to(detail::nanoseconds_of(deadline.time_since_epoch()));
    }

    /// Removes the deadline. A later `expire_after` sets one again.
    void clear() { move_to(std::chrono::nanoseconds::max().count()); }

private:
    template <typename Rep, typename Period, typename Body>
    friend auto with_deadline(std::chrono::duration<Rep, Period> duration, Body body)
        -> Task<detail::TimeoutResult<detail::DeadlineBodyResult<Body>>>;

    explicit Deadline(io::MonotonicTime initial) noexcept : initial_(initial) {}

    void move_to(io::MonotonicTime deadline) {
        if (join_ != nullptr) {
            join_->move_deadline(deadline);
        } else {
            initial_ = deadline;
        }
    }

    io::MonotonicTime initial_;
    detail::TimeoutJoin* join_ = nullptr; ///< null while the body is only called
};

/// Runs a body that is cancelled at a deadline, and may move the deadline.
///
///     co_await with_deadline(30s, [&](Deadline& idle) -> Task<Result<>> {
///         while (auto line = co_await reader.line()) {
///             idle.expire_after(30s);
///             ...
///         }
///         ...
///     });
///
/// Results, errors and cancellation are those of `timeout`. The body is kept until the end, so it
/// may capture.
template <typename Rep, typename Period, typename Body>
[[nodiscard]] auto with_deadline(std::chrono::duration<Rep, Period> duration, Body body)
    -> Task<detail::TimeoutResult<detail::DeadlineBodyResult<Body>>> {
    using T = detail::DeadlineBodyResult<Body>;
    Deadline deadline(detail::deadline_after(duration));
    Task<T> task = std::invoke(body, deadline);
    detail::TimeoutOperation<T> operation(deadline.initial_, std::move(task));
    deadline.join_ = &operation;
    co_await operation;
    co_return detail::timeout_result(operation);
}

} // namespace penstock
