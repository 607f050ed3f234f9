#pragma once

#include <mutex>
#include <utility>

#include <penstock/detail/wait_queue.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/task.hpp>

namespace penstock::sync {

/// Lets tasks wait until what a `Mutex` guards has changed.
///
/// `wait` gives the mutex away and waits in one step, so that no notification gets lost between the
/// two, and holds it again afterwards, whatever happened. Who is notified goes on in the order in which
/// they began to wait; nobody goes on without a notification.
///
/// It may be shared by tasks of several loops, and must outlive those who wait for it.
class Condition {
public:
    Condition() = default;
    Condition(const Condition&) = delete;
    Condition& operator=(const Condition&) = delete;

    /// Waits for a notification. `guard` must hold a mutex, and holds it again when this ends, also
    /// with `operation_canceled`: getting it back is not cancelled, because the caller's next line
    /// may rely on it. A task that was notified before it was cancelled yields success.
    [[nodiscard]] Task<Result<>> wait(Mutex::Guard& guard);

    /// Waits until `predicate()` holds; asked under the mutex, the first time before waiting.
    template <typename Predicate>
    [[nodiscard]] Task<Result<>> wait(Mutex::Guard& guard, Predicate predicate) {
        while (!predicate()) {
            if (Result<> notified = co_await wait(guard); !notified) {
                co_return notified;
            }
        }
        co_return Result<>();
    }

    /// The first one who waits, or nobody. Any thread, with or without the mutex.
    void notify_one() noexcept;
    /// All who wait now.
    void notify_all() noexcept;

private:
    class Notification;

    std::mutex lock_;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
