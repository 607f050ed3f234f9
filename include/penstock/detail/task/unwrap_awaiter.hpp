#pragma once

#include <coroutine>
#include <source_location>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/promise_base.hpp>
#include <penstock/result.hpp>

namespace penstock::detail {

/// The argument of `co_await unwrap(...)`: a `Result`, a task or an operation.
template <typename Source> struct [[nodiscard]] Unwrap {
    Source source;
};

/// Ends the awaiting task with this error. The promise catches what it throws.
///
/// Rejected: ending at the suspension point, without an exception. The local variables of the task
/// would then live until its awaiter destroys the frame, so a lock would be held for too long.
[[noreturn]] void end_task_with(std::error_code error);

template <typename T> T value_or_end(Result<T>&& result) {
    if (!result) [[unlikely]] {
        end_task_with(result.error());
    }
    if constexpr (!std::is_void_v<T>) {
        return *std::move(result);
    }
}

template <typename Source> class [[nodiscard]] ReadyUnwrapAwaiter {
public:
    explicit ReadyUnwrapAwaiter(Source&& result) noexcept : result_(std::move(result)) {}

    [[nodiscard]] bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<> /*task*/) const noexcept {}
    auto await_resume() { return value_or_end(std::move(result_)); }

private:
    Source result_;
};

/// `Inner` is the awaiter of a task, or a reference to an operation.
template <typename Inner> class [[nodiscard]] UnwrapAwaiter {
public:
    explicit UnwrapAwaiter(Inner&& inner) noexcept : inner_(std::forward<Inner>(inner)) {}

    [[nodiscard]] bool await_ready() { return inner_.await_ready(); }

    template <typename Promise> decltype(auto) await_suspend(std::coroutine_handle<Promise> task) {
        return inner_.await_suspend(task);
    }

    auto await_resume() {
        static_assert(is_result<std::remove_cvref_t<decltype(inner_.await_resume())>>,
                      "only a Result can be unwrapped");
        return value_or_end(inner_.await_resume());
    }

private:
    Inner inner_;
};

template <typename Inner> UnwrapAwaiter(Inner&&) -> UnwrapAwaiter<Inner>;

/// The awaiter of `co_await unwrap(...)` in a coroutine with this promise.
template <typename Promise, typename Source>
[[nodiscard]] auto unwrap_in(Promise& promise, Unwrap<Source>&& unwrap,
                             std::source_location where) noexcept {
    if constexpr (is_result<Source>) {
        return ReadyUnwrapAwaiter<Source>(std::move(unwrap.source));
    } else {
        return UnwrapAwaiter(promise.await_transform(std::move(unwrap.source), where));
    }
}

} // namespace penstock::detail
