#pragma once

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include <penstock/detail/promise_base.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

/// Ends the program with a sentence: a task that has been awaited, spawned or moved from is used again.
[[noreturn]] void report_consumed_task() noexcept;

template <typename T> class TaskPromise final : public PromiseBase {
public:
    [[nodiscard]] Task<T> get_return_object() noexcept;

    template <typename Value = T>
        requires std::is_constructible_v<T, Value&&>
    void return_value(Value&& value) {
        value_.emplace(std::forward<Value>(value));
    }

    [[nodiscard]] T take() {
        rethrow_if_failed();
        // A coroutine that has ended without an exception has returned a value.
        return std::move(*value_); // NOLINT(bugprone-unchecked-optional-access)
    }

    /// After the end: what there is instead of a value.
    [[nodiscard]] std::optional<Failure> failure() const noexcept {
        if constexpr (is_result<T>) {
            // NOLINTBEGIN(bugprone-unchecked-optional-access)
            if (!exception() && !value_->has_value()) {
                return Failure{.error = value_->error(), .exception = nullptr};
            }
            // NOLINTEND(bugprone-unchecked-optional-access)
        }
        return thrown();
    }

private:
    std::optional<T> value_;
};

template <> class TaskPromise<void> final : public PromiseBase {
public:
    [[nodiscard]] Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const { rethrow_if_failed(); }
    [[nodiscard]] std::optional<Failure> failure() const noexcept { return thrown(); }
};

} // namespace detail

/// A coroutine that computes a `T`: `Task<Result<std::size_t>> relay(TcpStream& from, TcpStream& to)`.
///
/// Lazy: nothing happens until it is awaited, run by a loop, or given to a `Scope` or a combinator;
/// and then it runs until it has ended. A task that is dropped before it was awaited never runs.
/// Awaiting neither allocates nor grows the stack, however many tasks in a row end without waiting.
///
/// A task's references are its caller's business: they must live until it has ended, which
/// `co_await task(argument)` gives by itself. A lambda that captures must outlive the task that it
/// returns; give what it needs as parameters instead, or use `with_scope`, which keeps its body alive.
///
/// Errors are values (`Result`). An exception that leaves the coroutine is a broken contract (a failed
/// assertion, no memory): it is rethrown where the task is awaited, out of the scope that it was
/// spawned in, or out of `run`. It is never swallowed.
///
/// Not thread safe; the whole task runs on one loop's thread.
template <typename T = void> class [[nodiscard]] Task {
public:
    using promise_type = detail::TaskPromise<T>;
    using value_type = T;

    Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(coroutine_, other.coroutine_);
        return *this;
    }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
        if (coroutine_) {
            coroutine_.destroy();
        }
    }

    /// For those who start tasks: the coroutine, which stays owned. A task without one, because it was
    /// moved from or awaited before, ends the program with a sentence that says so.
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
        task_.coroutine().promise().continue_with(awaiting, awaiting.promise());
        return transfer(task_.coroutine());
    }

    T await_resume() const { return task_.coroutine().promise().take(); }

private:
    Task<T> task_;
};

} // namespace detail
} // namespace penstock
