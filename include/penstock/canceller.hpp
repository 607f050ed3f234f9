#pragma once

#include <coroutine>
#include <utility>

#include <penstock/detail/children.hpp>
#include <penstock/detail/intrusive_list.hpp>

namespace penstock {

/// Cancels tasks from somewhere else in the program: they run under `cancellable(canceller, task)`, and
/// whoever holds the canceller calls `cancel`. It outlives them. Most programs need none: a `Scope`,
/// `race` and `timeout` cancel what runs in them.
///
/// Belongs to the tasks' loop's thread; from another one, `loop.post([&] { canceller.cancel(); })`.
class Canceller {
public:
    Canceller() = default;
    Canceller(const Canceller&) = delete;
    Canceller& operator=(const Canceller&) = delete;

    /// Cancels all that runs under this, and all that will. Returns at once.
    void cancel() noexcept;

    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// What runs under a canceller.
    class Cancellable : public detail::Gathering, public detail::ListHook {
    protected:
        explicit Cancellable(Canceller& canceller) noexcept
            : Gathering(&leave), canceller_(canceller) {}
        ~Cancellable() = default;

        void join() noexcept { canceller_.running_.push_back(*this); }
        [[nodiscard]] bool cancelled() const noexcept { return canceller_.cancelled_; }

    private:
        static void leave(Gathering& gathering, detail::ChildBase& /*child*/) noexcept {
            auto& self = static_cast<Cancellable&>(gathering);
            self.canceller_.running_.remove(self);
        }

        Canceller& canceller_;
    };

private:
    detail::IntrusiveList<Cancellable> running_;
    bool cancelled_ = false;
};

namespace detail {

template <typename T> class CancellableOperation final : public Canceller::Cancellable {
public:
    CancellableOperation(Canceller& canceller, Task<T>&& task) noexcept
        : Cancellable(canceller), child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return gather(task, [this] {
            enlist(child_);
            join();
            if (cancelled()) {
                child_.cancel();
            }
            child_.start(context());
        });
    }

    [[nodiscard]] T await_resume() { return child_.take(); }

private:
    Child<T> child_;
};

template <typename T> Task<T> run_cancellable(Canceller& canceller, Task<T> task) {
    CancellableOperation<T> operation(canceller, std::move(task));
    co_return co_await operation;
}

} // namespace detail

/// Runs a task (or awaits an operation) that `canceller` can end early, and yields its result. Where the
/// canceller has been used already, the task runs cancelled from the start.
template <Awaitable T> [[nodiscard]] Task<Awaited<T>> cancellable(Canceller& canceller, T task) {
    return detail::run_cancellable(canceller, detail::to_task(std::move(task)));
}

} // namespace penstock
