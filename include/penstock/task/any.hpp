#pragma once

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>

namespace penstock {

namespace detail {

template <typename... Ts>
Task<Result<std::variant<Success<Ts>...>>> first_success_of(Task<Ts>... tasks) {
    using Values = std::variant<Success<Ts>...>;
    ParallelGroupOf<Ts...> parallel(CancelOn::success, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) -> Result<Values> {
        rethrow_first(children...);
        if (parallel.trigger() == ParallelGroup::none) {
            std::error_code error;
            ((error = *children.error()), ...);
            return failure(error);
        }
        return variant_of<Values>(
            parallel.trigger(), [](auto& child) { return success_of(child); }, children...);
    });
}

} // namespace detail

/// Runs tasks or operations that return a `Result` concurrently until the first one succeeds.
/// Cancels the others, waits until they have ended, and returns the value of the successful one.
/// The index of the variant is the position of the argument.
///
/// If all of them fail, returns the error of the last argument. The first exception also cancels
/// the others. It is rethrown when all have ended. Cancelling the awaiting task cancels every
/// child.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0 && (is_result<Awaited<Ts>> && ...))
[[nodiscard]] auto any(Ts... tasks) -> Task<Result<std::variant<detail::Success<Awaited<Ts>>...>>> {
    return detail::first_success_of(detail::to_task(std::move(tasks))...);
}

/// The same for one or more tasks of one type. Throws `std::invalid_argument` if there are none.
template <typename T>
[[nodiscard]] Task<Result<Winner<T>>> any(std::vector<Task<Result<T>>> tasks) {
    if (tasks.empty()) {
        throw std::invalid_argument("any needs at least one task");
    }
    detail::ParallelVector<Result<T>> parallel(detail::CancelOn::success, std::move(tasks));
    co_await parallel;
    for (auto& child : parallel.children()) {
        detail::rethrow_first(child);
    }
    if (parallel.trigger() == detail::ParallelGroup::none) {
        co_return failure(*parallel.children().back().error()); // nobody threw
    }
    auto& winner = parallel.children()[parallel.trigger()];
    co_return Winner<T>{winner.index(), detail::success_of(winner)};
}

} // namespace penstock
