#pragma once

#include <utility>

#include <penstock/event_loop.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

namespace detail {

/// Makes a loop the current one of this thread, for the duration of a run.
class CurrentLoopGuard {
public:
    /// Throws `std::logic_error` if there is one already. In a forked child the parent's loop does
    /// not count.
    explicit CurrentLoopGuard(EventLoop& loop);
    ~CurrentLoopGuard();
    CurrentLoopGuard(const CurrentLoopGuard&) = delete;
    CurrentLoopGuard& operator=(const CurrentLoopGuard&) = delete;

private:
    EventLoop* before_;
};

struct RootCompletion : Completion {
    RootCompletion() noexcept : Completion(&finish) {}

    static std::coroutine_handle<> finish(Completion& completion) noexcept {
        static_cast<RootCompletion&>(completion).done = true;
        return std::noop_coroutine();
    }

    bool done = false;
};

} // namespace detail

template <typename T> T EventLoop::run(Task<T> task) {
    const detail::CurrentLoopGuard current(*this);
    TaskContext context(*this, nullptr, false);
    detail::RootCompletion completion;
    task.coroutine().promise().set_completion(completion, context);
    refill_budget();
    detail::resume(task.coroutine());
    run_until(completion.done);
    return task.coroutine().promise().take();
}

/// Runs a task to its end on a new loop of this thread. Returns its result or rethrows its
/// exception. Call it from `main`, or from a thread's function. Throws `std::logic_error` inside a
/// running loop (use `co_await` there), and `std::system_error` if the kernel has no descriptors
/// left.
template <typename T> T run(Task<T> task) {
    EventLoop loop;
    return loop.run(std::move(task));
}

} // namespace penstock
