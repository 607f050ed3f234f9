#pragma once

#include <cstddef>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/detail/task/parallel_group.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

/// The value of a `Result<T>`, otherwise `T` itself. `void` becomes `std::monostate`.
template <typename T> struct SuccessOf {
    using type = ValueOr<T>;
};
template <typename T> struct SuccessOf<Result<T>> {
    using type = ValueOr<T>;
};
template <typename T> using Success = typename SuccessOf<T>::type;

template <typename T> Success<T> success_of(Child<T>& child) {
    if constexpr (is_result<T> && !std::is_same_v<T, Result<void>>) {
        return *child.take();
    } else if constexpr (is_result<T> || std::is_void_v<T>) {
        child.take();
        return {};
    } else {
        return child.take();
    }
}

template <typename... Ts>
using AllResult = std::conditional_t<(is_result<Ts> || ...), Result<std::tuple<Success<Ts>...>>,
                                     std::tuple<Success<Ts>...>>;

template <typename... Ts> Task<AllResult<Ts...>> all_of(Task<Ts>... tasks) {
    ParallelGroupOf<Ts...> parallel(CancelOn::failure, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) -> AllResult<Ts...> {
        rethrow_first(children...);
        if constexpr ((is_result<Ts> || ...)) {
            if (parallel.trigger() != ParallelGroup::none) {
                std::error_code error;
                ((children.index() == parallel.trigger() ? void(error = *children.error())
                                                         : void()),
                 ...);
                return failure(error);
            }
        }
        return std::tuple<Success<Ts>...>(success_of(children)...);
    });
}

template <typename T>
using AllOfVector =
    std::conditional_t<is_result<T>, Result<std::vector<Success<T>>>, std::vector<Success<T>>>;

template <typename T> Task<AllOfVector<T>> all_of(std::vector<Task<T>> tasks) {
    ParallelVector<T> parallel(CancelOn::failure, std::move(tasks));
    co_await parallel;
    std::vector<Success<T>> values;
    values.reserve(parallel.children().size());
    for (Child<T>& child : parallel.children()) {
        rethrow_first(child);
    }
    if constexpr (is_result<T>) {
        if (parallel.trigger() != ParallelGroup::none) {
            co_return failure(*parallel.children()[parallel.trigger()].error());
        }
    }
    for (Child<T>& child : parallel.children()) {
        values.push_back(success_of(child));
    }
    co_return values;
}

} // namespace detail

/// Runs tasks or operations concurrently and returns their values as a tuple: `auto both = co_await
/// all(fetch(a), fetch(b));`.
///
/// They start in argument order. Each runs until it first suspends.
///
/// Result: if any argument returns a `Result`, `all` returns `Result<std::tuple<...>>`. Otherwise
/// it returns the tuple. `void` becomes `std::monostate`.
///
/// Errors: the first error or exception cancels the other children. `all` waits until every child
/// has ended. It then returns that error, or rethrows the exception.
///
/// Cancellation: cancelling the awaiting task cancels every child.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto all(Ts... tasks) -> Task<detail::AllResult<Awaited<Ts>...>> {
    return detail::all_of(detail::to_task(std::move(tasks))...);
}

/// The same for any number of tasks of one type. Returns a vector in the same order.
template <typename T>
[[nodiscard]] auto all(std::vector<Task<T>> tasks) -> Task<detail::AllOfVector<T>> {
    return detail::all_of(std::move(tasks));
}

} // namespace penstock
