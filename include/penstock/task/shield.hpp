#pragma once

#include <coroutine>
#include <utility>

#include <penstock/detail/task/children.hpp>

namespace penstock {

namespace detail {

template <typename T> class ShieldOperation final : public JoinBase {
public:
    explicit ShieldOperation(Task<T>&& task) noexcept
        : JoinBase(&ignore, nullptr), child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return join_children(task, [this] {
            add_child(child_);
            child_.start_shielded(context());
        });
    }

    void await_resume() const noexcept {}

    [[nodiscard]] T take() { return child_.take(); }

private:
    static void ignore(JoinBase& /*join*/, ChildBase& /*child*/) noexcept {}

    Child<T> child_;
};

template <typename T> Task<T> run_shielded(Task<T> task) {
    ShieldOperation<T> operation(std::move(task));
    co_await operation;
    co_return operation.take();
}

} // namespace detail

/// Runs a task or operation that a cancellation of the awaiting task does not reach, whether it
/// came before or comes meanwhile. Returns its result. Use it for cleanup that must wait, such as a
/// last message, and limit that with a `timeout` inside the shield. Afterwards, a cancelled task is
/// still cancelled.
template <Awaitable T> [[nodiscard]] Task<Awaited<T>> shield(T task) {
    return detail::run_shielded(detail::to_task(std::move(task)));
}

} // namespace penstock
