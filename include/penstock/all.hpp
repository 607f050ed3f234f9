#pragma once

#include <cstddef>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/detail/parallel.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

/// A `Result<T>`'s value, else the thing itself; `std::monostate` for `void`.
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
    ParallelOf<Ts...> parallel(Decisive::failure, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) -> AllResult<Ts...> {
        rethrow_first(children...);
        if constexpr ((is_result<Ts> || ...)) {
            if (parallel.decider() != Parallel::nobody) {
                std::error_code error;
                ((children.place() == parallel.decider() ? void(error = children.failure()->error)
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
    ParallelVector<T> parallel(Decisive::failure, std::move(tasks));
    co_await parallel;
    std::vector<Success<T>> values;
    values.reserve(parallel.children().size());
    for (Child<T>& child : parallel.children()) {
        rethrow_first(child);
    }
    if constexpr (is_result<T>) {
        if (parallel.decider() != Parallel::nobody) {
            // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it decided by failing
            co_return failure(parallel.children()[parallel.decider()].failure()->error);
        }
    }
    for (Child<T>& child : parallel.children()) {
        values.push_back(success_of(child));
    }
    co_return values;
}

} // namespace detail

/// Runs tasks (or operations) beside each other and yields all their values, in a tuple:
/// `auto both = co_await all(fetch(a), fetch(b));`.
///
/// The first one that yields an error, or throws, cancels the others; when all have ended, that error
/// is the result of the whole. Of tasks that yield no `Result` there is none, and the result is the
/// tuple itself; `void` is `std::monostate` in it. An exception is thrown on, when all have ended.
///
/// They start in order, each running until it waits. Cancelling the whole cancels each of them.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto all(Ts... tasks) -> Task<detail::AllResult<Awaited<Ts>...>> {
    return detail::all_of(detail::to_task(std::move(tasks))...);
}

/// The same for any number of tasks of one type: yields a vector in their order.
template <typename T>
[[nodiscard]] auto all(std::vector<Task<T>> tasks) -> Task<detail::AllOfVector<T>> {
    return detail::all_of(std::move(tasks));
}

} // namespace penstock
