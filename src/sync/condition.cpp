#include <penstock/sync/condition.hpp>

#include <cassert>

#include <penstock/detail/task/budget_operation.hpp>

namespace penstock::sync {

/// Enqueues the waiter, and then unlocks the mutex.
class Condition::Notification final : public detail::WaitOperation<Notification, void> {
public:
    Notification(Condition& condition, Mutex::Guard& guard) noexcept
        : WaitOperation(condition.lock_, condition.waiting_), guard_(guard) {}

    [[nodiscard]] bool await_ready() noexcept { return complete_if_cancelled(); }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        {
            const std::lock_guard guard(lock());
            enqueue();
        }
        // The coroutine cannot resume before this returns, because its loop runs on this thread.
        guard_.unlock();
    }

    [[nodiscard]] Result<> result() const noexcept { return {}; }

private:
    Mutex::Guard& guard_;
};

Task<Result<>> Condition::wait(Mutex::Guard& guard) {
    assert(guard && "a condition is waited for under its mutex");
    co_await detail::BudgetOperation(); // for a cancelled task that calls this in a loop
    Mutex& mutex = *guard.mutex_;
    Notification notification(*this, guard);
    Result<> notified = co_await notification;
    if (!guard) {
        guard = std::move(*co_await Mutex::Lock(mutex, nullptr));
    }
    co_return notified;
}

void Condition::notify_one() noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    if (detail::Waiter* first = detail::Waiter::take_first(waiting_)) {
        wake_list.add(*first);
    }
}

void Condition::notify_all() noexcept {
    detail::Waiter::WakeList wake_list;
    const std::lock_guard guard(lock_);
    wake_list.add_all(waiting_);
}

} // namespace penstock::sync
