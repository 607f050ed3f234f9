#pragma once

#include <coroutine>

#include <penstock/detail/task/children.hpp>
#include <penstock/io/work.hpp>
#include <penstock/task/scope.hpp>

namespace penstock::detail {

/// A task of a scope that is a part of its owner, and may run one coroutine after the other. For
/// servers, whose connections would each hold a frame of a coroutine that only waits for another.
///
/// `start` runs in the loop's next iteration: it calls `begin_task`, and resumes what `run_in_task`
/// or `end_task` returns. The end of a coroutine calls `completion`, which returns what one of both
/// does. The owner frees the coroutines, and itself after `end_task`.
///
/// Thread safety: only on the thread of its loop.
class EmbeddedTask : public ChildBase, public io::Work {
protected:
    EmbeddedTask(Scope& scope, Function completion, Run start) noexcept
        : ChildBase(completion, scope.join_), Work(start) {}
    ~EmbeddedTask() = default;

    void spawn() noexcept {
        scope_join().adopt(*this);
        scope_join().context().loop().schedule(*this);
    }

    void begin_task() noexcept {
        TaskContext& parent = scope_join().context();
        begin_context(parent, parent.cancelled());
    }

    /// The task goes on with this coroutine, once it is resumed. A failure of it is the owner's.
    template <typename Promise>
    [[nodiscard]] std::coroutine_handle<>
    run_in_task(std::coroutine_handle<Promise> coroutine) noexcept {
        set_outermost(coroutine);
        return coroutine;
    }

    /// The task has ended. Returns the coroutine to resume when nothing of it is in use any more.
    [[nodiscard]] std::coroutine_handle<> end_task() noexcept {
        ScopeJoin& join = scope_join();
        tell();
        const std::coroutine_handle<> next = leave();
        join.remove_spawned();
        return next;
    }

private:
    [[nodiscard]] ScopeJoin& scope_join() const noexcept { return static_cast<ScopeJoin&>(join()); }
};

} // namespace penstock::detail
