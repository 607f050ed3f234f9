#pragma once

#include <mutex>

#include <penstock/detail/wait_queue.hpp>
#include <penstock/result.hpp>

namespace penstock::sync {

/// Something that has happened, or has not yet. All who wait go on when it is set; later ones do not
/// wait, until it is reset.
///
/// It may be set on any thread, with waiting tasks on several loops, and must outlive those.
class Event {
public:
    class Wait final : public detail::WaitOperation<Wait, void> {
    public:
        explicit Wait(Event& event) noexcept
            : WaitOperation(event.lock_, event.waiting_), event_(&event) {}

        bool try_now(Awakened& /*awakened*/) const noexcept { return event_->set_; }
        [[nodiscard]] Result<> result() const noexcept { return {}; }

    private:
        Event* event_;
    };

    Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    /// Fails only with `operation_canceled`. A task that waited when it was set goes on even if it is
    /// reset before the task's turn comes.
    [[nodiscard]] Wait wait() noexcept { return Wait(*this); }

    void set() noexcept;
    void reset() noexcept;
    [[nodiscard]] bool is_set() const noexcept;

private:
    mutable std::mutex lock_;
    bool set_ = false;
    detail::WaitQueue waiting_;
};

} // namespace penstock::sync
