#pragma once

#include <penstock/event_loop.hpp>

namespace penstock {

class Suspension;

/// What the coroutines that await each other have in common: their loop, what the innermost one waits
/// for, and whether they have been cancelled. A chain of `co_await task()` shares one context; each
/// child of a `Scope`, `all`, `race` or `timeout` has its own.
///
/// It reaches operations by itself (the promise hands it to whatever is awaited), so no function takes
/// a token. Cancellation goes down the tree of contexts and its end is then awaited upwards: a
/// cancelled task's current operation ends with `std::errc::operation_canceled`, and so does every
/// later one, until the task has ended. What must be done even then is done under `shield`.
///
/// Only the loop's thread may touch it.
class TaskContext : public detail::ListHook {
public:
    /// `parent` is who waits for this one's end, null for the task that a loop runs. A child of a
    /// cancelled parent is born cancelled, unless it is shielded.
    TaskContext(EventLoop& loop, TaskContext* parent, bool cancelled) noexcept
        : loop_(&loop), parent_(parent), cancelled_(cancelled) {
        loop.tasks_.push_back(*this);
    }
    ~TaskContext() { loop_->tasks_.remove(*this); }
    TaskContext(const TaskContext&) = delete;
    TaskContext& operator=(const TaskContext&) = delete;

    [[nodiscard]] EventLoop& loop() const noexcept { return *loop_; }
    [[nodiscard]] const TaskContext* parent() const noexcept { return parent_; }
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// Makes this task's current and every later operation end with `operation_canceled`. Returns at
    /// once; whoever awaits the task learns of its end. Safe to call again.
    void cancel() noexcept;

    /// What the innermost coroutine waits for; null while it runs, or before it has begun.
    [[nodiscard]] const Suspension* waiting() const noexcept { return waiting_; }

private:
    friend class Suspension;

    EventLoop* loop_;
    TaskContext* parent_;
    Suspension* waiting_ = nullptr;
    bool cancelled_;
};

} // namespace penstock
