#pragma once

#include <coroutine>
#include <utility>

#include <penstock/detail/children.hpp>

namespace penstock {

namespace detail {

template <typename T> class ShieldOperation final : public Gathering {
public:
    explicit ShieldOperation(Task<T>&& task) noexcept
        : Gathering(&ignore, nullptr), child_(*this, std::move(task)) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return gather(task, [this] {
            enlist(child_);
            child_.start_shielded(context());
        });
    }

    void await_resume() const noexcept {}

    [[nodiscard]] T take() { return child_.take(); }

private:
    static void ignore(Gathering& /*gathering*/, ChildBase& /*child*/) noexcept {}

    Child<T> child_;
};

template <typename T> Task<T> run_shielded(Task<T> task) {
    ShieldOperation<T> operation(std::move(task));
    co_await operation;
    co_return operation.take();
}

} // namespace detail

/// Runs a task (or awaits an operation) that cancellation does not reach, whether it came before or
/// comes meanwhile: for what must still be done then, such as a last message. Bound it with `timeout`
/// inside of the shield. Once it has ended, the surrounding task is as cancelled as before.
template <Awaitable T> [[nodiscard]] Task<Awaited<T>> shield(T task) {
    return detail::run_shielded(detail::to_task(std::move(task)));
}

} // namespace penstock
