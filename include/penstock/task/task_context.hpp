#pragma once

#include <penstock/event_loop.hpp>

namespace penstock {

class OperationBase;

/// The state shared by the coroutines that await each other: their loop, the operation that the
/// innermost one awaits, and whether they are cancelled. A chain of `co_await task()` shares one
/// context. Each child of a `Scope`, `all`, `race` or `timeout` has its own.
///
/// The promise passes the context to each operation, so no function takes a cancellation token.
/// Cancellation goes down the tree of contexts, and parents then await their children. The current
/// operation of a cancelled task completes with `std::errc::operation_canceled`, and so does every
/// later one, until the task has ended. `shield` exempts cleanup from that.
///
/// Thread safety: only on the thread of its loop.
class TaskContext : public io::ListHook<TaskContext> {
public:
    /// `parent` awaits the end of this task. It is null for the task that a loop runs. A child of a
    /// cancelled parent starts cancelled, unless it is shielded.
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

    /// Makes the current and every later operation of this task complete with `operation_canceled`.
    /// Does not wait for the task to end. Further calls do nothing.
    void cancel() noexcept;

    /// The operation that the innermost coroutine awaits. Null while it runs, and before it starts.
    [[nodiscard]] const OperationBase* waiting() const noexcept { return waiting_; }

private:
    friend class OperationBase;

    EventLoop* loop_;
    TaskContext* parent_;
    OperationBase* waiting_ = nullptr;
    bool cancelled_;
};

} // namespace penstock
