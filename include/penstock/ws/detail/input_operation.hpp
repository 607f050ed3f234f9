#pragma once

#include <chrono>
#include <coroutine>
#include <utility>

#include <penstock/chunk.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/io/owner_of.hpp>
#include <penstock/io/timer_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::ws::detail {

/// A `receive` of a socket that completes with `timed_out`, and `expired()`, if nothing arrives for
/// a time. The timer lives in the operation, so there is one only while a task waits, and it is
/// cheap: timers of one delay are added and removed in constant time, and a deadline may be a tick
/// late. Rejected: `timeout`, which would cost a task for each message.
template <typename Receive> class InputOperation final : public Receive, private io::Timer {
public:
    /// Without a time if `patience` is 0.
    InputOperation(Receive&& receive, std::chrono::milliseconds patience) noexcept
        : Receive(std::move(receive)), Timer(&expire), patience_(patience) {}

    /// Throws `std::bad_alloc`.
    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        if (patience_.count() > 0) {
            this->context().loop().timers().add(
                *this, penstock::detail::deadline_after(patience_, io::coarse_monotonic_now()));
        }
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

private:
    static void expire(io::Work& work) {
        auto& operation = static_cast<InputOperation&>(io::owner_of<&io::Timer::work>(work));
        operation.expired_ = operation.interrupt();
    }

    void stop() noexcept {
        if (this->scheduled()) {
            this->context().loop().timers().cancel(*this);
        }
    }

    std::chrono::milliseconds patience_;
    bool expired_ = false;
};

} // namespace penstock::ws::detail
