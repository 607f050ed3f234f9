#include <penstock/sync/condition.hpp>

#include <cassert>

#include <penstock/detail/turn.hpp>

namespace penstock::sync {

/// Joins those who wait, and only then gives the mutex away.
class Condition::Notification final : public detail::WaitOperation<Notification, void> {
public:
    Notification(Condition& condition, Mutex::Guard& guard) noexcept
        : WaitOperation(condition.lock_, condition.waiting_), guard_(guard) {}

    [[nodiscard]] bool await_ready() noexcept { return begin_cancelled(); }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        {
            const std::lock_guard guard(lock());
            enter_queue();
        }
        // The coroutine cannot go on before this returns: its loop is this thread's.
        guard_.unlock();
    }

    [[nodiscard]] Result<> result() const noexcept { return {}; }

private:
    Mutex::Guard& guard_;
};

Task<Result<>> Condition::wait(Mutex::Guard& guard) {
    assert(guard && "a condition is waited for under its mutex");
    co_await detail::TurnOperation(); // for who asks again and again in a cancelled task
    Mutex& mutex = *guard.mutex_;
    Notification notification(*this, guard);
    Result<> notified = co_await notification;
    if (!guard) {
        guard = std::move(*co_await Mutex::Lock(mutex, nullptr));
    }
    co_return notified;
}

void Condition::notify_one() noexcept {
    detail::Waiter::Awakened awakened;
    const std::lock_guard guard(lock_);
    if (detail::Waiter* first = detail::Waiter::take_first(waiting_)) {
        awakened.add(*first);
    }
}

void Condition::notify_all() noexcept {
    detail::Waiter::Awakened awakened;
    const std::lock_guard guard(lock_);
    awakened.add_all(waiting_);
}

} // namespace penstock::sync
