#pragma once

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/all.hpp>
#include <penstock/race.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

template <typename... Ts>
Task<Result<std::variant<Success<Ts>...>>> first_success_of(Task<Ts>... tasks) {
    using Values = std::variant<Success<Ts>...>;
    ParallelOf<Ts...> parallel(Decisive::success, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) -> Result<Values> {
        rethrow_first(children...);
        if (parallel.decider() == Parallel::nobody) {
            std::error_code error;
            ((error = children.failure()->error), ...);
            return failure(error);
        }
        return variant_of<Values>(
            parallel.decider(), [](auto& child) { return success_of(child); }, children...);
    });
}

} // namespace detail

/// Runs tasks (or operations) that yield a `Result` beside each other until the first one succeeds;
/// cancels the others, waits until they have ended, and yields the first one's value as a variant whose
/// index is its place. When all of them fail, the last argument's error is the result.
///
/// The first exception cancels the others too, and is thrown on when all have ended.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0 && (is_result<Awaited<Ts>> && ...))
[[nodiscard]] auto any(Ts... tasks) -> Task<Result<std::variant<detail::Success<Awaited<Ts>>...>>> {
    return detail::first_success_of(detail::to_task(std::move(tasks))...);
}

/// The same for one task or more of one type. Throws `std::invalid_argument` when there is none.
template <typename T>
[[nodiscard]] Task<Result<Winner<T>>> any(std::vector<Task<Result<T>>> tasks) {
    if (tasks.empty()) {
        throw std::invalid_argument("any of no tasks cannot succeed");
    }
    detail::ParallelVector<Result<T>> parallel(detail::Decisive::success, std::move(tasks));
    co_await parallel;
    for (auto& child : parallel.children()) {
        detail::rethrow_first(child);
    }
    if (parallel.decider() == detail::Parallel::nobody) {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): nobody succeeded, nobody threw
        co_return failure(parallel.children().back().failure()->error);
    }
    auto& winner = parallel.children()[parallel.decider()];
    co_return Winner<T>{winner.place(), detail::success_of(winner)};
}

} // namespace penstock
