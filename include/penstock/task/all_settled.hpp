#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include <penstock/detail/task/parallel_group.hpp>

namespace penstock {

namespace detail {

template <typename... Ts> Task<std::tuple<ValueOr<Ts>...>> settle_all(Task<Ts>... tasks) {
    ParallelGroupOf<Ts...> parallel(CancelOn::never, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([](Child<Ts>&... children) {
        rethrow_first(children...);
        return std::tuple<ValueOr<Ts>...>(children.take_value()...);
    });
}

} // namespace detail

/// Runs tasks or operations concurrently and returns the result of each, errors included, as a
/// tuple. `void` becomes `std::monostate`.
///
/// An error does not cancel the other children. If children throw, `all_settled` waits until every
/// child has ended and rethrows the first exception in argument order. Cancelling the awaiting task
/// cancels every child.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto all_settled(Ts... tasks) -> Task<std::tuple<detail::ValueOr<Awaited<Ts>>...>> {
    return detail::settle_all(detail::to_task(std::move(tasks))...);
}

/// The same for any number of tasks of one type. Returns a vector in the same order.
template <typename T>
[[nodiscard]] Task<std::vector<detail::ValueOr<T>>> all_settled(std::vector<Task<T>> tasks) {
    detail::ParallelVector<T> parallel(detail::CancelOn::never, std::move(tasks));
    co_await parallel;
    std::vector<detail::ValueOr<T>> results;
    results.reserve(parallel.children().size());
    for (detail::Child<T>& child : parallel.children()) {
        results.push_back(child.take_value());
    }
    co_return results;
}

} // namespace penstock
