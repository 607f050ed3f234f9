#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/detail/parallel.hpp>

namespace penstock {

namespace detail {

/// The result of the child at `place`, at its own place in the variant.
template <typename Variant, typename... Ts>
Variant variant_of(std::size_t place, auto take, Child<Ts>&... children) {
    std::optional<Variant> result;
    [&]<std::size_t... Places>(std::index_sequence<Places...>) {
        ((place == Places ? void(result.emplace(std::in_place_index<Places>, take(children)))
                          : void()),
         ...);
    }(std::index_sequence_for<Ts...>());
    return std::move(*result); // NOLINT(bugprone-unchecked-optional-access): one place is it
}

template <typename... Ts> Task<std::variant<ValueOr<Ts>...>> first_of(Task<Ts>... tasks) {
    ParallelOf<Ts...> parallel(Decisive::anybody, std::move(tasks)...);
    co_await parallel;
    co_return parallel.with_children([&](Child<Ts>&... children) {
        rethrow_first(children...);
        return variant_of<std::variant<ValueOr<Ts>...>>(
            parallel.decider(), [](auto& child) { return child.take_value(); }, children...);
    });
}

} // namespace detail

/// Runs tasks (or operations) beside each other until the first one ends, well or badly; cancels the
/// others, waits until they have ended, and yields the first one's result as a variant whose index is
/// its place:
///
///     auto first = co_await race(stream.read(buffer), stop.wait());
///     if (first.index() == 1) { ... }
///
/// `void` is `std::monostate`. What the others yield is dropped, their exceptions are not: a loser that
/// had its value already (a channel's, a connection) loses it. To bound an operation in time without
/// that use `timeout`.
///
/// They start in order, and one that ends without waiting wins over all behind it; those start all the
/// same, cancelled.
template <Awaitable... Ts>
    requires(sizeof...(Ts) > 0)
[[nodiscard]] auto race(Ts... tasks) -> Task<std::variant<detail::ValueOr<Awaited<Ts>>...>> {
    return detail::first_of(detail::to_task(std::move(tasks))...);
}

/// The winner among tasks of one type.
template <typename T> struct Winner {
    std::size_t place;
    detail::ValueOr<T> value;
};

/// The same for one task or more of one type. Throws `std::invalid_argument` when there is none.
template <typename T> [[nodiscard]] Task<Winner<T>> race(std::vector<Task<T>> tasks) {
    if (tasks.empty()) {
        throw std::invalid_argument("a race needs a task at least");
    }
    detail::ParallelVector<T> parallel(detail::Decisive::anybody, std::move(tasks));
    co_await parallel;
    for (detail::Child<T>& child : parallel.children()) {
        detail::rethrow_first(child);
    }
    detail::Child<T>& winner = parallel.children()[parallel.decider()];
    co_return Winner<T>{winner.place(), winner.take_value()};
}

} // namespace penstock
