#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// A counting semaphore: it limits how many tasks do something at the same time.
///
/// Fair: permits go to the longest waiter, and nobody overtakes.
///
/// Thread safety: tasks of several loops may share it. It must outlive its permits and waiters.
class Semaphore {
public:
    /// Holds one permit. The destructor releases it, and so does assigning another permit.
    class [[nodiscard]] Permit {
    public:
        Permit() = default;

        /// Returns the permit to the semaphore. Further calls do nothing.
        void release() noexcept { semaphore_.reset(); }

        /// Drops the permit without releasing it. `Semaphore::release` can add it again later.
        void forget() noexcept { (void)semaphore_.release(); }

        [[nodiscard]] explicit operator bool() const noexcept { return semaphore_ != nullptr; }

    private:
        friend class Semaphore;

        struct Release {
            void operator()(Semaphore* semaphore) const noexcept { semaphore->release(); }
        };

        explicit Permit(Semaphore& semaphore) noexcept : semaphore_(&semaphore) {}

        std::unique_ptr<Semaphore, Release> semaphore_;
    };

    class Acquire final : public detail::WaitOperation<Acquire, Permit> {
    public:
        explicit Acquire(Semaphore& semaphore) noexcept
            : WaitOperation(semaphore.lock_, semaphore.waiting_), semaphore_(&semaphore) {}

        bool try_now(WakeList& /*wake_list*/) noexcept { return semaphore_->take(); }
        [[nodiscard]] Permit result() const noexcept { return Permit(*semaphore_); }

    private:
        Semaphore* semaphore_;
    };

    explicit Semaphore(std::size_t permits) noexcept : available_(permits) {}
    Semaphore(const Semaphore&) = delete;
    Semaphore& operator=(const Semaphore&) = delete;

    /// Waits for a permit: `auto permit = co_await semaphore.acquire();`. Errors: only
    /// `operation_canceled`.
    [[nodiscard]] Acquire acquire() noexcept { return Acquire(*this); }

    /// Takes a permit without waiting. Returns an empty optional if none is available. Any thread
    /// may call this.
    [[nodiscard]] std::optional<Permit> try_acquire() noexcept;

    /// Adds permits. Any thread may call this.
    void release(std::size_t permits = 1) noexcept;

    [[nodiscard]] std::size_t available() const noexcept;

private:
    [[nodiscard]] bool take() noexcept {
        if (available_ == 0) {
            return false;
        }
        --available_;
        return true;
    }

    mutable std::mutex lock_;
    std::size_t available_;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
