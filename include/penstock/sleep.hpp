#pragma once

#include <chrono>
#include <coroutine>
#include <system_error>

#include <penstock/detail/moment.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock {

/// What `sleep_for` and `sleep_until` return.
class [[nodiscard]] SleepOperation final : public Suspension, private io::Timer {
public:
    explicit SleepOperation(io::MonotonicTime moment) noexcept
        : Suspension(&cancel), Timer(&run_due), moment_(moment) {}

    [[nodiscard]] bool await_ready() noexcept {
        cancelled_ = context().cancelled();
        return cancelled_ && context().loop().spend();
    }

    /// Throws `std::bad_alloc`.
    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        if (cancelled_) { // but others must run first
            suspend(task);
            resume_soon();
            return;
        }
        context().loop().timers().add(*this, moment_);
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
        // The work is the timer's first member, which makes their addresses one.
        static_cast<SleepOperation&>(*reinterpret_cast<io::Timer*>(&work)).resume();
    }

    static void cancel(Suspension& suspension) noexcept {
        auto& operation = static_cast<SleepOperation&>(suspension);
        operation.context().loop().timers().cancel(operation);
        operation.cancelled_ = true;
        operation.resume_soon();
    }

    io::MonotonicTime moment_;
    bool cancelled_ = false;
};

/// Waits at least this long, from this call on. `operation_canceled` when the task is cancelled
/// meanwhile. A duration that is not positive lets everything else that is ready run once.
template <typename Rep, typename Period>
[[nodiscard]] SleepOperation sleep_for(std::chrono::duration<Rep, Period> duration) noexcept {
    return SleepOperation(detail::moment_after(duration));
}

/// The same until a moment; the past is now.
template <typename Duration>
[[nodiscard]] SleepOperation
sleep_until(std::chrono::time_point<std::chrono::steady_clock, Duration> moment) noexcept {
    return SleepOperation(detail::nanoseconds_of(moment.time_since_epoch()));
}

} // namespace penstock
