#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/errors.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/channel.hpp>
#include <penstock/sync/channel_ends.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

namespace detail {

/// Hands out the items of a range, each once, with its index. A forward range yields references to
/// its items. An input range yields the items themselves.
template <std::ranges::input_range View> class ItemSource {
public:
    using Item =
        std::conditional_t<std::ranges::forward_range<View>, std::ranges::range_reference_t<View>,
                           std::ranges::range_value_t<View>>;

    explicit ItemSource(View view)
        : view_(std::move(view)), next_(std::ranges::begin(view_)), end_(std::ranges::end(view_)) {}
    ItemSource(const ItemSource&) = delete;
    ItemSource& operator=(const ItemSource&) = delete;

    [[nodiscard]] bool exhausted() const { return next_ == end_; }
    [[nodiscard]] std::size_t index() const noexcept { return index_; }

    [[nodiscard]] Item take() {
        Item item = *next_;
        ++next_;
        ++index_;
        return item;
    }

private:
    View view_;
    std::ranges::iterator_t<View> next_;
    std::ranges::sentinel_t<View> end_;
    std::size_t index_ = 0;
};

inline void check_concurrency(std::size_t limit) {
    if (limit == 0) {
        throw std::invalid_argument("at least one call must run at a time: the limit is 0");
    }
}

/// How many more tasks a call of these functions may start. Each task starts the next one when it
/// has its first item, so that a large limit costs nothing where there are few items.
class Starts {
public:
    Starts(Scope& scope, std::size_t left) noexcept : scope_(scope), left_(left) {}

    template <typename Start> void next(Start start) {
        if (left_ > 0) {
            --left_;
            scope_.spawn(start());
        }
    }

private:
    Scope& scope_;
    std::size_t left_;
};

/// One of the tasks that call `function` until the items are exhausted.
template <typename Source, typename Function>
Task<Result<>> call_with_each(Source& source, Function& function, Starts& starts) {
    bool first = true;
    while (!source.exhausted()) {
        if (!co_await BudgetOperation()) {
            co_return failure(std::errc::operation_canceled);
        }
        if (source.exhausted()) { // by another task meanwhile
            break;
        }
        const std::size_t index = source.index();
        typename Source::Item item = source.take();
        if (std::exchange(first, false) && !source.exhausted()) {
            starts.next([&] { return call_with_each(source, function, starts); });
        }
        if (Result<> called = co_await function(index, std::forward<typename Source::Item>(item));
            !called) {
            co_return called;
        }
    }
    co_return Result<>();
}

template <typename View, typename Function>
Task<Result<>> run_for_each(View view, std::size_t limit, Function function) {
    std::size_t at_once = 1;
    if constexpr (std::ranges::sized_range<View>) { // as many tasks as are needed
        at_once = limit = std::min<std::size_t>(limit, std::ranges::size(view));
    }
    ItemSource<View> source(std::move(view));
    std::optional<Starts> starts; // lives as long as the scope
    co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
        starts.emplace(scope, limit - at_once);
        for (std::size_t i = 0; i < at_once; ++i) {
            scope.spawn(call_with_each(source, function, *starts));
        }
        co_return Result<>();
    });
}

/// `co_await function(item)` as a `Result<>`.
template <typename Function, typename Item>
Task<Result<>> call_for_success(Function& function, Item&& item) {
    if constexpr (std::is_void_v<typename std::invoke_result_t<Function&, Item>::value_type>) {
        co_await std::invoke(function, std::forward<Item>(item));
        co_return Result<>();
    } else {
        co_return co_await std::invoke(function, std::forward<Item>(item));
    }
}

template <typename View, typename Function,
          typename Returned = typename std::invoke_result_t<
              Function&, typename ItemSource<View>::Item&&>::value_type,
          typename Value = Success<Returned>>
Task<Result<std::vector<Value>>> run_map(View view, std::size_t limit, Function function) {
    std::vector<std::optional<Value>> values;
    const auto call = [&](std::size_t index,
                          typename ItemSource<View>::Item&& item) -> Task<Result<>> {
        values.resize(std::max(values.size(), index + 1));
        Returned returned =
            co_await std::invoke(function, std::forward<typename ItemSource<View>::Item>(item));
        if constexpr (is_result<Returned>) {
            if (!returned) {
                co_return failure(returned.error());
            }
            values[index].emplace(*std::move(returned));
        } else {
            values[index].emplace(std::move(returned));
        }
        co_return Result<>();
    };
    if (const Result<> called = co_await run_for_each(std::move(view), limit, std::cref(call));
        !called) {
        co_return failure(called.error());
    }
    std::vector<Value> mapped;
    mapped.reserve(values.size());
    for (std::optional<Value>& value : values) {
        mapped.push_back(*std::move(value)); // NOLINT(bugprone-unchecked-optional-access)
    }
    co_return mapped;
}

/// `Queue` is a channel or its receiving end.
template <typename Queue, typename Function>
Task<Result<>> receive_each(Queue& queue, Function& function, Starts& starts) {
    bool first = true;
    for (;;) {
        auto value = co_await queue.receive();
        if (!value && value.error() == Error::channel_closed) {
            co_return Result<>();
        }
        if (!value) {
            co_return failure(value.error());
        }
        if (std::exchange(first, false)) {
            starts.next([&] { return receive_each(queue, function, starts); });
        }
        if (Result<> called = co_await call_for_success(function, *std::move(value)); !called) {
            co_return called;
        }
    }
}

template <typename Queue, typename Function>
Task<Result<>> run_for_each_received(Queue& queue, std::size_t limit, Function& function) {
    check_concurrency(limit);
    std::optional<Starts> starts; // lives as long as the scope
    co_return co_await with_scope([&](Scope& scope) -> Task<Result<>> {
        starts.emplace(scope, limit - 1);
        scope.spawn(receive_each(queue, function, *starts));
        co_return Result<>();
    });
}

} // namespace detail

/// Calls `function(item)` for each item of a range, at most `limit` at a time. The function returns
/// a `Task<Result<>>`, or a `Task<void>` that handles its own errors.
///
///     co_await for_each_concurrent(urls, 8, [&](const std::string& url) { return fetch(url); });
///
/// Order: calls start in the order of the items. A range that is passed by value is kept until the
/// end, and one that is passed as an lvalue must live that long. Items are passed by reference if
/// the range can be iterated more than once.
///
/// Errors: the first error or exception cancels the other calls, and is the result. Throws
/// `std::invalid_argument` for a limit of 0.
///
/// Cancellation: cancels the running calls and starts no further one. The result is
/// `operation_canceled`, unless every call had started and none of them returns that error.
template <std::ranges::input_range Range, typename Function>
[[nodiscard]] Task<Result<>> for_each_concurrent(Range&& range, std::size_t limit,
                                                 Function function) {
    detail::check_concurrency(limit);
    auto view = std::views::all(std::forward<Range>(range));
    using Item = typename detail::ItemSource<decltype(view)>::Item;
    return detail::run_for_each(
        std::move(view), limit,
        [function = std::move(function)](std::size_t /*index*/, Item&& item) mutable {
            return detail::call_for_success(function, std::forward<Item>(item));
        });
}

/// The same for the values of a channel, until it is closed and empty. With a limit of 1 it is the
/// loop of a consumer: `co_await for_each_concurrent(jobs, 1, [&](Job job) { return work(job); })`.
template <typename T, typename Function>
[[nodiscard]] Task<Result<>> for_each_concurrent(Channel<T>& channel, std::size_t limit,
                                                 Function function) {
    co_return co_await detail::run_for_each_received(channel, limit, function);
}

/// The same for the receiving end of a channel. This function owns `receiver`: if that is the last
/// one, the channel closes when the function ends, so that senders do not wait forever after an
/// error.
template <typename T, typename Function>
[[nodiscard]] Task<Result<>> for_each_concurrent(Receiver<T> receiver, std::size_t limit,
                                                 Function function) {
    co_return co_await detail::run_for_each_received(receiver, limit, function);
}

/// Calls `function(item)` for each item of a range, at most `limit` at a time, and returns the
/// results in the order of the items: `Result<std::vector<U>>` for a function that returns
/// `Task<Result<U>>` or `Task<U>`. Order, errors and cancellation are those of
/// `for_each_concurrent`.
template <std::ranges::input_range Range, typename Function>
[[nodiscard]] auto map_concurrent(Range&& range, std::size_t limit, Function function) {
    using View = std::views::all_t<Range>;
    using Item = typename detail::ItemSource<View>::Item;
    using Returned = typename std::invoke_result_t<Function&, Item&&>::value_type;
    constexpr bool has_values = !std::is_void_v<Returned> && !std::is_same_v<Returned, Result<>>;
    static_assert(has_values, "map_concurrent needs a function with a value (Task<U> or "
                              "Task<Result<U>>); without one, call for_each_concurrent");
    if constexpr (has_values) { // otherwise more errors would follow
        detail::check_concurrency(limit);
        return detail::run_map<View, Function>(std::views::all(std::forward<Range>(range)), limit,
                                               std::move(function));
    }
}

} // namespace penstock
