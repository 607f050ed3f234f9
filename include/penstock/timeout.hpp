#pragma once

#include <chrono>
#include <coroutine>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/children.hpp>
#include <penstock/sleep.hpp>

namespace penstock {

namespace detail {

template <typename T> class TimeoutOperation final : public Gathering, private io::Timer {
public:
    TimeoutOperation(io::MonotonicTime deadline, Task<T>&& task) noexcept
        : Gathering(&stop), Timer(&expire), deadline_(deadline), child_(*this, std::move(task)) {}

    /// Throws `std::bad_alloc`.
    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        context().loop().timers().add(*this, deadline_);
        return gather(task, [this] {
            enlist(child_);
            child_.start(context());
        });
    }

    void await_resume() const noexcept {}

    [[nodiscard]] bool expired() const noexcept { return expired_; }
    [[nodiscard]] Child<T>& child() noexcept { return child_; }

private:
    static void stop(Gathering& gathering, ChildBase& /*child*/) noexcept {
        auto& self = static_cast<TimeoutOperation&>(gathering);
        self.context().loop().timers().cancel(self);
    }

    static void expire(io::Work& work) {
        auto& self = static_cast<TimeoutOperation&>(*reinterpret_cast<io::Timer*>(&work));
        // Who was told to end before has not run out of time, however long its end takes.
        self.expired_ = !self.context().cancelled();
        self.cancel_children();
    }

    io::MonotonicTime deadline_;
    Child<T> child_;
    bool expired_ = false;
};

template <typename T> using TimeoutResult = std::conditional_t<is_result<T>, T, Result<T>>;

template <typename T>
Task<TimeoutResult<T>> run_until_deadline(io::MonotonicTime deadline, Task<T> task) {
    TimeoutOperation<T> operation(deadline, std::move(task));
    co_await operation;
    if constexpr (is_result<T>) {
        T result = operation.child().take();
        if (operation.expired() && !result && result.error() == std::errc::operation_canceled) {
            co_return failure(std::errc::timed_out);
        }
        co_return result;
    } else {
        if constexpr (std::is_void_v<T>) {
            operation.child().take();
            if (!operation.expired()) {
                co_return TimeoutResult<T>();
            }
        } else {
            T value = operation.child().take();
            if (!operation.expired()) {
                co_return value;
            }
        }
        co_return failure(std::errc::timed_out);
    }
}

} // namespace detail

/// Runs a task (or awaits an operation), and cancels it at a moment.
///
/// Yields the task's own result, or `timed_out`. The task has ended when this ends: the moment only
/// makes its operations end with `operation_canceled`, and what it does then takes as long as it takes.
/// A task of `Result<T>` that succeeds all the same has succeeded; of any other task, which cannot say
/// whether it gave up, `timed_out` is said whenever the moment had come.
template <typename Duration, Awaitable T>
[[nodiscard]] auto timeout_at(std::chrono::time_point<std::chrono::steady_clock, Duration> moment,
                              T task) -> Task<detail::TimeoutResult<Awaited<T>>> {
    return detail::run_until_deadline<Awaited<T>>(detail::nanoseconds_of(moment.time_since_epoch()),
                                                  detail::to_task(std::move(task)));
}

/// The same, this long from now: `co_await timeout(5s, stream.read(buffer))`.
template <typename Rep, typename Period, Awaitable T>
[[nodiscard]] auto timeout(std::chrono::duration<Rep, Period> duration, T task)
    -> Task<detail::TimeoutResult<Awaited<T>>> {
    return detail::run_until_deadline<Awaited<T>>(detail::moment_after(duration),
                                                  detail::to_task(std::move(task)));
}

} // namespace penstock
