#pragma once

#include <mutex>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// A flag that tasks can wait for. `set` wakes all waiters. While it is set, `wait` returns at
/// once.
///
/// Thread safety: any thread may set it. Tasks of several loops may wait for it. It must outlive
/// them.
class Event {
public:
    class Wait final : public detail::WaitOperation<Wait, void> {
    public:
        explicit Wait(Event& event) noexcept
            : WaitOperation(event.lock_, event.waiting_), event_(&event) {}

        bool try_now(WakeList& /*wake_list*/) const noexcept { return event_->set_; }
        [[nodiscard]] Result<> result() const noexcept { return {}; }

    private:
        Event* event_;
    };

    Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    /// Waits until the flag is set. Errors: only `operation_canceled`. A task that waits when the
    /// flag is set gets success, even if the flag is cleared before the task runs.
    [[nodiscard]] Wait wait() noexcept { return Wait(*this); }

    /// Sets the flag and wakes all waiters. Any thread may call this.
    void set() noexcept;
    /// Clears the flag. Later waits wait for the next `set`. Any thread may call this.
    void reset() noexcept;
    [[nodiscard]] bool is_set() const noexcept;

private:
    mutable std::mutex lock_;
    bool set_ = false;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
