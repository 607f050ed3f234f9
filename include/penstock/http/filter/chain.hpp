#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {

/// A filter that only decides whether the request goes on.
template <typename F>
concept GateFilter = std::invocable<F&, Request&, Response&> &&
                     std::same_as<std::invoke_result_t<F&, Request&, Response&>, bool>;

inline Task<Result<>> answered() {
    co_return Result<>();
}

/// The last part of a chain: a handler, whose outcome is one of two types here.
template <typename Handler> struct ChainEnd {
    Handler handler;

    auto operator()(Request& request, Response& response) {
        using Outcome = std::invoke_result_t<Handler&, Request&, Response&>;
        if constexpr (std::same_as<Outcome, Task<void>>) {
            return with_success(handler(request, response));
        } else if constexpr (std::is_void_v<Outcome>) {
            handler(request, response);
            return Result<>();
        } else {
            return handler(request, response);
        }
    }

private:
    static Task<Result<>> with_success(Task<void> task) {
        co_await std::move(task);
        co_return Result<>();
    }
};

/// What a filter is given to go on. Valid while the filter runs.
template <typename Rest> class Next {
public:
    explicit Next(Rest& rest) noexcept : rest_(&rest) {}

    [[nodiscard]] Task<Result<>> operator()(Request& request, Response& response) const {
        if constexpr (std::same_as<std::invoke_result_t<Rest&, Request&, Response&>, Result<>>) {
            return finished(*rest_, request, response);
        } else {
            return (*rest_)(request, response);
        }
    }

private:
    static Task<Result<>> finished(Rest& rest, Request& request, Response& response) {
        co_return rest(request, response);
    }

    Rest* rest_;
};

template <typename Filter, typename Rest> struct ChainLink {
    Filter filter;
    Rest rest;

    auto operator()(Request& request, Response& response) {
        using Outcome = std::invoke_result_t<Rest&, Request&, Response&>;
        if constexpr (!GateFilter<Filter>) {
            return filter(request, response, Next<Rest>(rest));
        } else if constexpr (std::same_as<Outcome, Result<>>) {
            return filter(request, response) ? rest(request, response) : Result<>();
        } else {
            return filter(request, response) ? rest(request, response) : answered();
        }
    }
};

} // namespace detail

/// The handler alone: the end of the recursion.
template <typename Handler> [[nodiscard]] auto chain(Handler handler) {
    return detail::ChainEnd<Handler>{std::move(handler)};
}

/// Puts filters (middleware) before a handler. They run in the order of the arguments. The result
/// is a handler again, for a route of a server or as the last part of another chain:
///
///     http::RateLimit limit({.requests = 10, .burst = 20});
///     server.get("/report", http::chain(limit, http::SecurityHeaders(), report));
///
/// A filter is a copyable function object of one of two kinds:
///
/// - `bool operator()(Request&, Response&)` returns whether the request goes on. If it returns
///   false, it has set the response, by `Response::refuse` for a failure. It may add fields to the
///   response, which later parts may change; those of `Response::lasting_header` also stand on a
///   refusal of a later part.
/// - `template <typename Next> Task<Result<>> operator()(Request&, Response&, Next next)` calls
///   `next(request, response)` once or not at all, and may act before and after that.
///
/// The types of all parts are known, so a chain has no virtual call. Filters of the first kind
/// before a handler that does not wait create no coroutine. A chain belongs to its route: a filter
/// that shares state between routes does so itself (as `RateLimit`).
template <typename Filter, typename... Rest>
    requires(sizeof...(Rest) > 0)
[[nodiscard]] auto chain(Filter filter, Rest... rest) {
    auto inner = chain(std::move(rest)...);
    return detail::ChainLink<Filter, decltype(inner)>{std::move(filter), std::move(inner)};
}

/// Several filters of the first kind as one, for `ServerOptions::gate`: a request goes on if each
/// of them, in the order of the arguments, lets it.
template <typename... Filters>
    requires(detail::GateFilter<Filters> && ...)
[[nodiscard]] auto gates(Filters... filters) {
    return [... filters = std::move(filters)](Request& request, Response& response) mutable {
        return (filters(request, response) && ...);
    };
}

} // namespace penstock::http
