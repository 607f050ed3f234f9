#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include <penstock/detail/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// Lets one task at a time into a part of a program that waits inside. Code that does not wait needs
/// none: tasks of one loop interrupt each other at `co_await` only.
///
/// Fair: it passes to whoever has waited longest, and nobody overtakes. It may be shared by tasks of
/// several loops. It must outlive its guards and who waits for it.
class Mutex {
public:
    /// Holds the mutex until its end, or until `unlock`. May be moved, and unlocked on any thread.
    class [[nodiscard]] Guard {
    public:
        Guard() = default;
        Guard(Guard&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
        /// What this one held is unlocked.
        Guard& operator=(Guard&& other) noexcept {
            Guard taken(std::move(other));
            std::swap(mutex_, taken.mutex_);
            return *this;
        }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;
        ~Guard() { unlock(); }

        /// Safe to call again.
        void unlock() noexcept {
            if (Mutex* mutex = std::exchange(mutex_, nullptr)) {
                mutex->pass_on();
            }
        }

        [[nodiscard]] explicit operator bool() const noexcept { return mutex_ != nullptr; }

    private:
        friend class Mutex;
        friend class Condition;
        explicit Guard(Mutex& mutex) noexcept : mutex_(&mutex) {}

        Mutex* mutex_ = nullptr;
    };

    class Lock final : public detail::WaitOperation<Lock, Guard> {
    public:
        explicit Lock(Mutex& mutex) noexcept
            : WaitOperation(mutex.lock_, mutex.waiting_), mutex_(&mutex) {}

        bool try_now(Awakened& /*awakened*/) noexcept { return mutex_->take(); }
        [[nodiscard]] Guard result() const noexcept { return Guard(*mutex_); }

    private:
        friend class Condition;
        Lock(Mutex& mutex, std::nullptr_t) noexcept
            : WaitOperation(mutex.lock_, mutex.waiting_, nullptr), mutex_(&mutex) {}

        Mutex* mutex_;
    };

    Mutex() = default;
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    /// Waits for its turn: `auto guard = co_await mutex.lock(); if (!guard) { ... }`. Fails only with
    /// `operation_canceled`.
    [[nodiscard]] Lock lock() noexcept { return Lock(*this); }

    /// Nothing when it is held.
    [[nodiscard]] std::optional<Guard> try_lock() noexcept;

    [[nodiscard]] bool locked() const noexcept;

private:
    [[nodiscard]] bool take() noexcept { return !std::exchange(locked_, true); }
    void pass_on() noexcept;

    mutable std::mutex lock_;
    bool locked_ = false;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
