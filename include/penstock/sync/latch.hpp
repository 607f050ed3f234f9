#pragma once

#include <cstddef>
#include <mutex>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// A single-use counter that counts down to zero. Zero wakes all waiters. After that, `wait`
/// returns at once.
///
/// Thread safety: any thread may count down. Tasks of several loops may wait. It must outlive them.
class Latch {
public:
    class Wait final : public detail::WaitOperation<Wait, void> {
    public:
        explicit Wait(Latch& latch) noexcept
            : WaitOperation(latch.lock_, latch.waiting_), latch_(&latch) {}

        bool try_now(WakeList& /*wake_list*/) const noexcept { return latch_->count_ == 0; }
        [[nodiscard]] Result<> result() const noexcept { return {}; }

    private:
        Latch* latch_;
    };

    explicit Latch(std::size_t count) noexcept : count_(count) {}
    Latch(const Latch&) = delete;
    Latch& operator=(const Latch&) = delete;

    /// Counts down, but not below zero.
    void count_down(std::size_t by = 1) noexcept;

    /// Waits until the count is zero. Errors: only `operation_canceled`.
    [[nodiscard]] Wait wait() noexcept { return Wait(*this); }

    /// Counts down by one, when it is called and not when it is awaited, and waits until the count
    /// is zero: `co_await latch.arrive_and_wait()`. A cancelled wait leaves the count as it is.
    [[nodiscard]] Wait arrive_and_wait() noexcept {
        count_down();
        return wait();
    }

    [[nodiscard]] std::size_t count() const noexcept;

private:
    mutable std::mutex lock_;
    std::size_t count_;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
