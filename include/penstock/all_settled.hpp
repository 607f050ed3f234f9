#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include <penstock/detail/parallel.hpp>

namespace penstock {

namespace detail {

template <typename... Ts> Task<std::tuple<ValueOr<Ts>...>> settle_all(Task<Ts>... tasks) {
    ParallelOf<Ts...> parallel(Decisive::nobody, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([](Child<Ts>&... children) {
        rethrow_first(children...);
        return std::tuple<ValueOr<Ts>...>(children.take_value()...);
    });
}

} // namespace detail

/// Runs tasks (or operations) beside each other and yields what each of them yielded, errors included,
/// in a tuple. None ends another; `void` is `std::monostate`. An exception is thrown on when all have
/// ended, the first one's in the order of the arguments.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto all_settled(Ts... tasks) -> Task<std::tuple<detail::ValueOr<Awaited<Ts>>...>> {
    return detail::settle_all(detail::to_task(std::move(tasks))...);
}

/// The same for any number of tasks of one type: yields a vector in their order.
template <typename T>
[[nodiscard]] Task<std::vector<detail::ValueOr<T>>> all_settled(std::vector<Task<T>> tasks) {
    detail::ParallelVector<T> parallel(detail::Decisive::nobody, std::move(tasks));
    co_await parallel;
    std::vector<detail::ValueOr<T>> results;
    results.reserve(parallel.children().size());
    for (detail::Child<T>& child : parallel.children()) {
        results.push_back(child.take_value());
    }
    co_return results;
}

} // namespace penstock
