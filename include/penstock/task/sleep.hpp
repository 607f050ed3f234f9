#pragma once

#include <chrono>
#include <coroutine>
#include <system_error>

#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/owner_of.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

/// The operation of `sleep_for` and `sleep_until`.
class [[nodiscard]] SleepOperation final : public OperationBase, private io::Timer {
public:
    explicit SleepOperation(io::MonotonicTime deadline) noexcept
        : OperationBase(&cancel), Timer(&run_due), deadline_(deadline) {}

    [[nodiscard]] bool await_ready() noexcept {
        cancelled_ = context().cancelled();
        return cancelled_ && context().loop().consume_budget();
    }

    /// Throws `std::bad_alloc`.
    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        if (cancelled_) { // other tasks must run first
            suspend(task);
            resume_soon();
            return;
        }
        context().loop().timers().add(*this, deadline_);
        suspend(task);
    }

    [[nodiscard]] Result<> await_resume() const noexcept {
        if (cancelled_) {
            return failure(std::errc::operation_canceled);
        }
        return {};
    }

private:
    static void run_due(io::Work& work) {
        static_cast<SleepOperation&>(io::owner_of<&io::Timer::work>(work)).resume();
    }

    static void cancel(OperationBase& base) noexcept {
        auto& operation = static_cast<SleepOperation&>(base);
        operation.context().loop().timers().cancel(operation);
        operation.cancelled_ = true;
        operation.resume_soon();
    }

    io::MonotonicTime deadline_;
    bool cancelled_ = false;
};

/// Waits at least this long, counted from this call on CLOCK_MONOTONIC. Returns
/// `operation_canceled` if the task is cancelled. A zero or negative duration lets everything else
/// that is ready run once. `co_await` throws `std::bad_alloc`.
template <typename Rep, typename Period>
[[nodiscard]] SleepOperation sleep_for(std::chrono::duration<Rep, Period> duration) noexcept {
    return SleepOperation(detail::deadline_after(duration));
}

/// The same with a deadline. A deadline in the past counts as now.
template <typename Duration>
[[nodiscard]] SleepOperation
sleep_until(std::chrono::time_point<std::chrono::steady_clock, Duration> deadline) noexcept {
    return SleepOperation(detail::nanoseconds_of(deadline.time_since_epoch()));
}

} // namespace penstock
