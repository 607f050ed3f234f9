#pragma once

#include <chrono>
#include <coroutine>
#include <new>
#include <utility>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/owner_of.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/task/task.hpp>

namespace penstock::ws::detail {

/// A `receive` of a socket that completes with `timed_out`, and `expired()`, if nothing arrives for
/// a time. The timer lives in the operation, so there is one only while a task waits, and it is
/// cheap: timers of one delay are added and removed in constant time, and a deadline may be a tick
/// late. Rejected: `timeout`, which would cost a task for each message.
template <typename Receive> class InputOperation : public Receive, private io::Timer {
public:
    /// Without a time if `patience` is 0.
    InputOperation(Receive&& receive, std::chrono::milliseconds patience) noexcept
        : InputOperation(std::move(receive), patience, &run_expiry) {}
    InputOperation(const InputOperation&) = delete;
    InputOperation& operator=(const InputOperation&) = delete;
    ~InputOperation() { stop(); }

    /// Throws `std::bad_alloc`.
    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        start();
        const bool waits = Receive::await_suspend(task);
        if (!waits) {
            stop();
        }
        return waits;
    }

    [[nodiscard]] Result<Chunk> await_resume() {
        stop();
        return Receive::await_resume();
    }

    /// Whether nothing has arrived in time.
    [[nodiscard]] bool expired() const noexcept { return expired_; }

protected:
    /// Only before it is awaited.
    InputOperation(InputOperation&& other) noexcept
        : Receive(static_cast<Receive&&>(other)), Timer(other.work.run),
          patience_(other.patience_) {}

    /// `on_expiry` calls `expire` of `operation_of` its argument.
    InputOperation(Receive&& receive, std::chrono::milliseconds patience,
                   io::Work::Run on_expiry) noexcept
        : Receive(std::move(receive)), Timer(on_expiry), patience_(patience) {}

    [[nodiscard]] static InputOperation& operation_of(io::Work& work) noexcept {
        return static_cast<InputOperation&>(io::owner_of<&io::Timer::work>(work));
    }

    /// Returns whether nothing has arrived. The task then resumes in the next iteration.
    bool expire() noexcept {
        expired_ = this->interrupt();
        return expired_;
    }

    /// As the constructor. Only before it is awaited.
    void wait_for(const Receive& receive, std::chrono::milliseconds patience) noexcept {
        this->aim_as(receive);
        patience_ = patience;
    }

    /// Waits on, for another time than the one before. False without memory for its timer.
    [[nodiscard]] bool wait_again(std::chrono::milliseconds patience) noexcept {
        stop();
        patience_ = patience;
        try {
            start();
        } catch (const std::bad_alloc&) {
            return false;
        }
        return true;
    }

    /// Only before it is suspended.
    void set_patience(std::chrono::milliseconds patience) noexcept { patience_ = patience; }

    /// Until then the timer may look at the stream, which other tasks may close as soon as this
    /// operation no longer waits.
    void stop() noexcept {
        if (this->scheduled()) {
            this->context().loop().timers().cancel(*this);
        }
    }

private:
    void start() {
        if (patience_.count() > 0) {
            this->context().loop().timers().add(
                *this, penstock::detail::deadline_after(patience_, io::coarse_monotonic_now()));
        }
    }

    static void run_expiry(io::Work& work) { operation_of(work).expire(); }

    std::chrono::milliseconds patience_;
    bool expired_ = false;
};

/// An `InputOperation` that tells `Derived` the outcome before the waiting coroutine resumes, so
/// that it may go on in a task instead: `input_ended()` after data, the end or an error of the
/// stream, `input_is_silent()` when the time is over. Neither is called if the operation completes
/// without an attempt to read, as after a cancellation. If `input_ended()` returns false, or
/// `bears_silence()` returns true when the time is over, the operation waits on.
///
/// A base, and not a part: a waiting coroutine holds what is in it for as long as it waits.
template <typename Receive, typename Derived> class ToldInput : public InputOperation<Receive> {
public:
    ToldInput& operator=(ToldInput&&) = delete;

protected:
    /// Makes the completion start `task`, whose end resumes the waiting coroutine. Only while this
    /// is suspended.
    template <typename T> void continue_in(const Task<T>& task) noexcept {
        const auto coroutine = task.coroutine();
        coroutine.promise().set_continuation(this->divert_to(coroutine), *this->promise());
    }

private:
    friend Derived;

    /// It waits for nothing before `wait_for`.
    ToldInput() noexcept
        : InputOperation<Receive>(Receive(nullptr), std::chrono::milliseconds::zero(),
                                  &tell_expiry) {
        this->replace_attempt(&attempt_and_tell);
    }
    ToldInput(ToldInput&&) noexcept = default;
    ~ToldInput() = default;

    static bool attempt_and_tell(penstock::detail::ReadinessOperation& base) noexcept {
        auto& operation = static_cast<ToldInput&>(base);
        if (!operation.attempt()) {
            return false;
        }
        operation.stop(); // a task may follow, for longer than the stream lives
        return static_cast<Derived&>(operation).input_ended();
    }

    static void tell_expiry(io::Work& work) {
        auto& operation = static_cast<ToldInput&>(InputOperation<Receive>::operation_of(work));
        if (operation.is_waiting() && static_cast<Derived&>(operation).bears_silence()) {
            return;
        }
        if (operation.expire()) {
            static_cast<Derived&>(operation).input_is_silent();
        }
    }
};

} // namespace penstock::ws::detail
