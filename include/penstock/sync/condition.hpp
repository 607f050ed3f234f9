#pragma once

#include <mutex>
#include <utility>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/task/task.hpp>

namespace penstock::sync {

/// Lets tasks wait for a change of state that a `Mutex` guards.
///
/// `wait` unlocks the mutex and starts to wait in one step, so no notification is lost in between.
/// It always locks the mutex again before it returns. Waiters are notified in the order in which
/// they began to wait. There are no spurious wake-ups.
///
/// Thread safety: tasks of several loops may share it. It must outlive its waiters.
class Condition {
public:
    Condition() = default;
    Condition(const Condition&) = delete;
    Condition& operator=(const Condition&) = delete;

    /// Waits for a notification. `guard` must hold a mutex. It holds the mutex again when this
    /// returns, even with `operation_canceled`: cancellation does not reach the locking, because
    /// the caller's next line may rely on it. A task that was notified before it was cancelled gets
    /// success.
    [[nodiscard]] Task<Result<>> wait(Mutex::Guard& guard);

    /// Waits until `predicate()` is true. It is called under the mutex, first before waiting.
    template <typename Predicate>
    [[nodiscard]] Task<Result<>> wait(Mutex::Guard& guard, Predicate predicate) {
        while (!predicate()) {
            if (Result<> notified = co_await wait(guard); !notified) {
                co_return notified;
            }
        }
        co_return Result<>();
    }

    /// Wakes the first waiter, if there is one. Any thread may call this, with or without the
    /// mutex.
    void notify_one() noexcept;
    /// Wakes all current waiters.
    void notify_all() noexcept;

private:
    class Notification;

    std::mutex lock_;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
