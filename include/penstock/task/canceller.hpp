#pragma once

#include <coroutine>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock {

/// Cancels tasks from another part of the program. The tasks run under `cancellable(canceller,
/// task)`. The owner of the canceller calls `cancel`. The canceller must outlive the tasks. Most
/// programs do not need one: a `Scope`, `race` and `timeout` cancel the tasks inside them.
///
/// Thread safety: only on the thread of the tasks' loop. From another thread use `loop.post([&] {
/// canceller.cancel(); })`.
class Canceller {
public:
    Canceller() = default;
    Canceller(const Canceller&) = delete;
    Canceller& operator=(const Canceller&) = delete;

    /// Cancels every task that runs under this canceller, now or later. Does not wait for them.
    void cancel() noexcept;

    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// An operation that runs under a canceller.
    class Cancellable : public detail::JoinBase, public io::ListHook<Cancellable> {
    protected:
        explicit Cancellable(Canceller& canceller) noexcept
            : JoinBase(&leave), canceller_(canceller) {}
        ~Cancellable() = default;

        void join() noexcept { canceller_.running_.push_back(*this); }
        [[nodiscard]] bool cancelled() const noexcept { return canceller_.cancelled_; }

    private:
        static void leave(JoinBase& join, detail::ChildBase& /*child*/) noexcept {
            auto& self = static_cast<Cancellable&>(join);
            self.canceller_.running_.remove(self);
        }

        Canceller& canceller_;
    };

private:
    io::IntrusiveList<Cancellable> running_;
    bool cancelled_ = false;
};

namespace detail {

template <typename T> class CancellableOperation final : public Canceller::Cancellable {
public:
    CancellableOperation(Canceller& canceller, Task<T>&& task) noexcept
        : Cancellable(canceller), child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return join_children(task, [this] {
            add_child(child_);
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

/// Runs a task or operation that `canceller` can cancel, and returns its result. If the canceller
/// was cancelled before, the task starts cancelled.
template <Awaitable T> [[nodiscard]] Task<Awaited<T>> cancellable(Canceller& canceller, T task) {
    return detail::run_cancellable(canceller, detail::to_task(std::move(task)));
}

} // namespace penstock
