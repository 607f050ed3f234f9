#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// Mutual exclusion for code that awaits while it holds the lock. Code that does not await needs no
/// mutex, because tasks of one loop interleave only at `co_await`.
///
/// Fair: ownership passes to the longest waiter, and nobody overtakes.
///
/// Thread safety: tasks of several loops may share it. It must outlive its guards and waiters.
class Mutex {
public:
    /// Holds the mutex. The destructor unlocks it, and so does assigning another guard. A guard may
    /// be moved, and unlocked on any thread.
    class [[nodiscard]] Guard {
    public:
        Guard() = default;

        /// Unlocks the mutex before the end of the guard. Further calls do nothing.
        void unlock() noexcept { mutex_.reset(); }

        [[nodiscard]] explicit operator bool() const noexcept { return mutex_ != nullptr; }

    private:
        friend class Mutex;
        friend class Condition;

        struct Unlock {
            void operator()(Mutex* mutex) const noexcept { mutex->hand_off(); }
        };

        explicit Guard(Mutex& mutex) noexcept : mutex_(&mutex) {}

        std::unique_ptr<Mutex, Unlock> mutex_;
    };

    class Lock final : public detail::WaitOperation<Lock, Guard> {
    public:
        explicit Lock(Mutex& mutex) noexcept
            : WaitOperation(mutex.lock_, mutex.waiting_), mutex_(&mutex) {}

        bool try_now(WakeList& /*wake_list*/) noexcept { return mutex_->take(); }
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

    /// Waits for the mutex: `auto guard = co_await mutex.lock(); if (!guard) { ... }`. Errors: only
    /// `operation_canceled`.
    [[nodiscard]] Lock lock() noexcept { return Lock(*this); }

    /// Locks without waiting. Returns an empty optional if the mutex is held. Any thread may call
    /// this.
    [[nodiscard]] std::optional<Guard> try_lock() noexcept;

    [[nodiscard]] bool locked() const noexcept;

private:
    [[nodiscard]] bool take() noexcept { return !std::exchange(locked_, true); }
    void hand_off() noexcept;

    mutable std::mutex lock_;
    bool locked_ = false;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
