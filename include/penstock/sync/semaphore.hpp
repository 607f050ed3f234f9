#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include <penstock/detail/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// A number of permits: how many tasks may do something at the same time.
///
/// Fair: permits go to whoever has waited longest, and nobody overtakes. It may be shared by tasks of
/// several loops. It must outlive its permits and who waits for it.
class Semaphore {
public:
    /// Gives one permit back at its end, or in `release`.
    class [[nodiscard]] Permit {
    public:
        Permit() = default;
        Permit(Permit&& other) noexcept : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
        /// The permit that this one was is given back.
        Permit& operator=(Permit&& other) noexcept {
            Permit taken(std::move(other));
            std::swap(semaphore_, taken.semaphore_);
            return *this;
        }
        Permit(const Permit&) = delete;
        Permit& operator=(const Permit&) = delete;
        ~Permit() { release(); }

        /// Safe to call again.
        void release() noexcept {
            if (Semaphore* semaphore = std::exchange(semaphore_, nullptr)) {
                semaphore->release();
            }
        }

        /// Keeps the permit for good: whoever used it up calls `Semaphore::release` for it later, or
        /// nobody does.
        void forget() noexcept { semaphore_ = nullptr; }

        [[nodiscard]] explicit operator bool() const noexcept { return semaphore_ != nullptr; }

    private:
        friend class Semaphore;
        explicit Permit(Semaphore& semaphore) noexcept : semaphore_(&semaphore) {}

        Semaphore* semaphore_ = nullptr;
    };

    class Acquire final : public detail::WaitOperation<Acquire, Permit> {
    public:
        explicit Acquire(Semaphore& semaphore) noexcept
            : WaitOperation(semaphore.lock_, semaphore.waiting_), semaphore_(&semaphore) {}

        bool try_now(Awakened& /*awakened*/) noexcept { return semaphore_->take(); }
        [[nodiscard]] Permit result() const noexcept { return Permit(*semaphore_); }

    private:
        Semaphore* semaphore_;
    };

    explicit Semaphore(std::size_t permits) noexcept : available_(permits) {}
    Semaphore(const Semaphore&) = delete;
    Semaphore& operator=(const Semaphore&) = delete;

    /// Waits for a permit: `auto permit = co_await semaphore.acquire();`. Fails only with
    /// `operation_canceled`.
    [[nodiscard]] Acquire acquire() noexcept { return Acquire(*this); }

    /// Nothing when none is left.
    [[nodiscard]] std::optional<Permit> try_acquire() noexcept;

    /// Adds permits. Any thread.
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
