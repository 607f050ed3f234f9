#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

namespace detail {

template <typename T>
concept HasMemberCoAwait =
    requires(T&& awaitable) { std::forward<T>(awaitable).operator co_await(); };
template <typename T>
concept HasFreeCoAwait = requires(T&& awaitable) { operator co_await(std::forward<T>(awaitable)); };

template <typename T> decltype(auto) awaiter_of(T&& awaitable) {
    if constexpr (HasMemberCoAwait<T>) {
        return std::forward<T>(awaitable).operator co_await();
    } else if constexpr (HasFreeCoAwait<T>) {
        return operator co_await(std::forward<T>(awaitable));
    } else {
        return std::forward<T>(awaitable);
    }
}

template <typename T>
using ForeignResult = decltype(awaiter_of(std::declval<T&&>()).await_resume());

/// A coroutine that a foreign awaitable may resume on any thread. It starts at once and frees
/// itself at its end.
struct ForeignWaiter {
    struct promise_type {
        [[nodiscard]] ForeignWaiter get_return_object() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        // The body catches everything.
        void unhandled_exception() const noexcept { std::terminate(); }
    };
};

template <typename Foreign> class [[nodiscard]] ForeignOperation final : public OperationBase {
    using Value = ForeignResult<Foreign>;
    static_assert(!std::is_reference_v<Value>,
                  "wrap an awaitable of references in a task of yours");

public:
    explicit ForeignOperation(Foreign&& foreign)
        : OperationBase(nullptr), foreign_(std::forward<Foreign>(foreign)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        try {
            (void)wait(*this);
        } catch (...) { // no memory: it has not started
            unsuspend();
            throw;
        }
    }

    Value await_resume() {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
        if constexpr (!std::is_void_v<Value>) {
            // NOLINTNEXTLINE(bugprone-unchecked-optional-access): no exception, so a value
            return std::move(*value_);
        }
    }

private:
    static ForeignWaiter wait(ForeignOperation& self) {
        try {
            if constexpr (std::is_void_v<Value>) {
                co_await std::forward<Foreign>(self.foreign_);
            } else {
                self.value_.emplace(co_await std::forward<Foreign>(self.foreign_));
            }
        } catch (...) {
            self.exception_ = std::current_exception();
        }
        self.resume_from_any_thread();
    }

    Foreign foreign_; ///< a reference to an lvalue
    std::optional<ValueOr<Value>> value_;
    std::exception_ptr exception_;
};

} // namespace detail

/// Awaits an awaitable of another library:
/// `auto reply = co_await adapt(client.async_call(query));`.
///
/// The awaitable may resume on any thread. The task continues on its own loop in a later iteration.
/// The result is what the awaitable returns. An exception of the awaitable is rethrown here.
///
/// Cancellation does not reach a foreign awaitable: the task waits until the awaitable has
/// completed, and gets its value. To end it earlier, use the library's own means.
///
/// Lifetime: an rvalue is kept until it has completed. An lvalue, such as an event or a mutex of
/// the library, is awaited in place and must live that long. Awaiting allocates one coroutine
/// frame: `std::bad_alloc` is thrown before the awaitable has started.
template <typename Foreign>
    requires(!Awaitable<std::remove_reference_t<Foreign>> &&
             requires { typename detail::ForeignResult<Foreign>; })
[[nodiscard]] detail::ForeignOperation<Foreign> adapt(Foreign&& foreign) {
    return detail::ForeignOperation<Foreign>(std::forward<Foreign>(foreign));
}

} // namespace penstock
