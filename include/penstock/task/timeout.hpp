#pragma once

#include <chrono>
#include <coroutine>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/io/owner_of.hpp>
#include <penstock/task/sleep.hpp>

namespace penstock {

namespace detail {

/// Cancels its child at a deadline, which may move while the child runs.
class TimeoutJoin : public JoinBase, private io::Timer {
public:
    void await_resume() const noexcept {}

    [[nodiscard]] bool expired() const noexcept { return expired_; }

    /// Only on the loop's thread. Throws `std::bad_alloc`.
    void move_deadline(io::MonotonicTime deadline);

protected:
    explicit TimeoutJoin(io::MonotonicTime deadline) noexcept
        : JoinBase(&stop), Timer(&expire), deadline_(deadline) {}
    ~TimeoutJoin() = default;

    /// Throws `std::bad_alloc`.
    void start_timer() {
        context().loop().timers().add(*this, deadline_);
        armed_for_ = deadline_;
        running_ = true;
    }

private:
    static void stop(JoinBase& join, ChildBase& child) noexcept;
    static void expire(io::Work& work);

    io::MonotonicTime deadline_;
    /// When the timer fires. Earlier than the deadline if that has moved since.
    io::MonotonicTime armed_for_ = 0;
    bool running_ = false;
    bool expired_ = false;
};

template <typename T> class TimeoutOperation final : public TimeoutJoin {
public:
    TimeoutOperation(io::MonotonicTime deadline, Task<T>&& task) noexcept
        : TimeoutJoin(deadline), child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        start_timer();
        return join_children(task, [this] {
            add_child(child_);
            child_.start(context());
        });
    }

    [[nodiscard]] Child<T>& child() noexcept { return child_; }

private:
    Child<T> child_;
};

template <typename T> using TimeoutResult = std::conditional_t<is_result<T>, T, Result<T>>;

/// The result of a task that `operation` has run.
template <typename T> TimeoutResult<T> timeout_result(TimeoutOperation<T>& operation) {
    if constexpr (is_result<T>) {
        T result = operation.child().take();
        if (operation.expired() && !result && result.error() == std::errc::operation_canceled) {
            return failure(std::errc::timed_out);
        }
        return result;
    } else {
        if constexpr (std::is_void_v<T>) {
            operation.child().take();
            if (!operation.expired()) {
                return {};
            }
        } else {
            T value = operation.child().take();
            if (!operation.expired()) {
                return value;
            }
        }
        return failure(std::errc::timed_out);
    }
}

template <typename T>
Task<TimeoutResult<T>> run_until_deadline(io::MonotonicTime deadline, Task<T> task) {
    TimeoutOperation<T> operation(deadline, std::move(task));
    co_await operation;
    co_return timeout_result(operation);
}

} // namespace detail

/// Runs a task or operation, and cancels it at a deadline.
///
/// Returns the task's result, or `timed_out`. The task has always ended when this returns. The
/// deadline only makes its operations complete with `operation_canceled`. The task's own cleanup
/// may take longer. A task of `Result<T>` that succeeds after the deadline is a success. Any other
/// task cannot report that it was cut short, so after the deadline its result is `timed_out`.
///
/// Cancellation: cancelling the awaiting task cancels the child. Its result is returned.
///
/// Exceptions: those of the task are rethrown, even after the deadline.
template <typename Duration, Awaitable T>
[[nodiscard]] auto timeout_at(std::chrono::time_point<std::chrono::steady_clock, Duration> deadline,
                              T task) -> Task<detail::TimeoutResult<Awaited<T>>> {
    return detail::run_until_deadline<Awaited<T>>(
        detail::nanoseconds_of(deadline.time_since_epoch()), detail::to_task(std::move(task)));
}

/// The same with a duration from now: `co_await timeout(5s, stream.read(buffer))`.
template <typename Rep, typename Period, Awaitable T>
[[nodiscard]] auto timeout(std::chrono::duration<Rep, Period> duration, T task)
    -> Task<detail::TimeoutResult<Awaited<T>>> {
    return detail::run_until_deadline<Awaited<T>>(detail::deadline_after(duration),
                                                  detail::to_task(std::move(task)));
}

} // namespace penstock
