#pragma once

#include <utility>

#include <penstock/event_loop.hpp>
#include <penstock/task.hpp>

namespace penstock {

namespace detail {

/// Makes a loop this thread's current one for the time of a run.
class CurrentLoop {
public:
    /// Throws `std::logic_error` when there is one already; in a forked child its parent's does not count.
    explicit CurrentLoop(EventLoop& loop);
    ~CurrentLoop();
    CurrentLoop(const CurrentLoop&) = delete;
    CurrentLoop& operator=(const CurrentLoop&) = delete;

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
    const detail::CurrentLoop current(*this);
    TaskContext context(*this, nullptr, false);
    detail::RootCompletion completion;
    task.coroutine().promise().complete_with(completion, context);
    refill();
    detail::resume(task.coroutine());
    run_until(completion.done);
    return task.coroutine().promise().take();
}

/// Runs a task to its end on a new loop of this thread and returns its result, or throws what it
/// threw: a program's `main`, or a thread's. Throws `std::logic_error` inside of a running loop, where
/// `co_await` is meant, and `std::system_error` when the kernel has no descriptors for a loop.
template <typename T> T run(Task<T> task) {
    EventLoop loop;
    return loop.run(std::move(task));
}

} // namespace penstock
