#pragma once

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/promise_base.hpp>
#include <penstock/detail/task/unwrap_awaiter.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

/// Terminates the program with a message: a task was used after it was awaited, spawned or moved
/// from.
[[noreturn]] void report_consumed_task() noexcept;

template <typename T> class TaskPromise final : public PromiseBase {
public:
    [[nodiscard]] Task<T> get_return_object() noexcept;

    template <typename Value = T>
        requires std::is_constructible_v<T, Value&&>
    void return_value(Value&& value) {
        value_.emplace(std::forward<Value>(value));
    }

    using PromiseBase::await_transform;

    /// `co_await unwrap(...)`.
    template <typename Source>
    [[nodiscard]] auto
    await_transform(Unwrap<Source>&& unwrap,
                    std::source_location where = std::source_location::current()) noexcept {
        static_assert(is_result<T>, "unwrap needs a task that returns a Result");
        return unwrap_in(*this, std::move(unwrap), where);
    }

    void unhandled_exception() noexcept {
        if constexpr (is_result<T>) {
            if (const std::optional<std::error_code> error = take_unwrapped_error()) {
                value_.emplace(std::unexpect, *error);
            }
        } else {
            PromiseBase::unhandled_exception();
        }
    }

    [[nodiscard]] T take() {
        rethrow_if_failed();
        return std::move(value());
    }

    /// After an end without an exception.
    [[nodiscard]] T& value() noexcept {
        return *value_; // NOLINT(bugprone-unchecked-optional-access)
    }

private:
    std::optional<T> value_;
};

template <> class TaskPromise<void> final : public PromiseBase {
public:
    [[nodiscard]] Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const { rethrow_if_failed(); }
};

} // namespace detail

/// A coroutine that computes a `T`: `Task<Result<std::size_t>> relay(TcpStream& from, TcpStream&
/// to)`.
///
/// Lazy: the coroutine starts when it is awaited, run by a loop, or passed to a `Scope` or
/// combinator. It then runs to its end. A task that is dropped before that never runs. Awaiting
/// neither allocates nor grows the stack, even if many tasks in a row end without suspending.
///
/// Lifetime: references passed to the coroutine must stay valid until it has ended. `co_await
/// task(argument)` guarantees that. A lambda with captures must outlive the task that it returns.
/// Pass parameters instead, or use `with_scope`, which keeps its body alive.
///
/// Errors: errors are values (`Result`). An exception that leaves the coroutine is a broken
/// contract (a failed assertion, no memory). It is rethrown where the task is awaited, out of the
/// scope that spawned it, or out of `run`. It is never swallowed.
///
/// Thread safety: none. The whole task runs on the thread of one loop.
template <typename T = void> class [[nodiscard]] Task {
public:
    using promise_type = detail::TaskPromise<T>;
    using value_type = T;

    Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        Task taken(std::move(other));
        std::swap(coroutine_, taken.coroutine_);
        return *this;
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
        if (coroutine_) {
            coroutine_.destroy();
        }
    }

    /// For combinators: the coroutine. The task keeps ownership. If the task was moved from or
    /// awaited before, this terminates the program with a message.
    [[nodiscard]] std::coroutine_handle<promise_type> coroutine() const noexcept {
        if (!coroutine_) [[unlikely]] {
            detail::report_consumed_task();
        }
        return coroutine_;
    }

private:
    friend promise_type;
    explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

    std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {

template <typename T> Task<T> TaskPromise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

template <typename T> class [[nodiscard]] TaskAwaiter {
public:
    explicit TaskAwaiter(Task<T>&& task) noexcept : task_(std::move(task)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }

    template <std::derived_from<PromiseBase> Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) const noexcept {
        task_.coroutine().promise().set_continuation(awaiting, awaiting.promise());
        return transfer(task_.coroutine());
    }

    T await_resume() const { return task_.coroutine().promise().take(); }

private:
    Task<T> task_;
};

} // namespace detail
} // namespace penstock
