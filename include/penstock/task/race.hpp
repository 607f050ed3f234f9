#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/detail/task/parallel_group.hpp>

namespace penstock {

namespace detail {

/// A variant that holds the result of the child at `index`, in the alternative of that index.
template <typename Variant, typename... Ts>
Variant variant_of(std::size_t index, auto take, Child<Ts>&... children) {
    std::optional<Variant> result;
    [&]<std::size_t... Indices>(std::index_sequence<Indices...>) {
        ((index == Indices ? void(result.emplace(std::in_place_index<Indices>, take(children)))
                           : void()),
         ...);
    }(std::index_sequence_for<Ts...>());
    return std::move(*result); // NOLINT(bugprone-unchecked-optional-access): one index matches
}

template <typename... Ts> Task<std::variant<ValueOr<Ts>...>> first_of(Task<Ts>... tasks) {
    ParallelGroupOf<Ts...> parallel(CancelOn::any_end, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) {
        rethrow_first(children...);
        return variant_of<std::variant<ValueOr<Ts>...>>(
            parallel.trigger(), [](auto& child) { return child.take_value(); }, children...);
    });
}

} // namespace detail

/// Runs tasks or operations concurrently until the first one ends, with a value or an error.
/// Cancels the others, waits until they have ended, and returns the result of the first. The index
/// of the variant is the position of the argument. `void` becomes `std::monostate`.
///
///     auto first = co_await race(stream.read(buffer), stop.wait());
///     if (first.index() == 1) { ... }
///
/// They start in argument order. A child that ends without suspending wins over all after it. Those
/// still start, but cancelled.
///
/// Results of the losers are dropped: a loser that already has a value (from a channel, or a
/// connection) loses it. Use `timeout` to limit an operation in time without that loss. Exceptions
/// of the losers are rethrown.
///
/// Cancelling the awaiting task cancels every child.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto race(Ts... tasks) -> Task<std::variant<detail::ValueOr<Awaited<Ts>>...>> {
    return detail::first_of(detail::to_task(std::move(tasks))...);
}

/// The first child that ended or succeeded, among tasks of one type.
template <typename T> struct Winner {
    std::size_t index;
    detail::ValueOr<T> value;
};

/// The same for one or more tasks of one type. Throws `std::invalid_argument` if there are none.
template <typename T> [[nodiscard]] Task<Winner<T>> race(std::vector<Task<T>> tasks) {
    if (tasks.empty()) {
        throw std::invalid_argument("race needs at least one task");
    }
    detail::ParallelVector<T> parallel(detail::CancelOn::any_end, std::move(tasks));
    co_await parallel;
    for (detail::Child<T>& child : parallel.children()) {
        detail::rethrow_first(child);
    }
    detail::Child<T>& winner = parallel.children()[parallel.trigger()];
    co_return Winner<T>{winner.index(), winner.take_value()};
}

} // namespace penstock
