#pragma once

#include <chrono>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

/// The validators of the current state of a resource (RFC 9110, section 8.8).
struct ResourceState {
    /// The ETag with its quotation marks: "\"7\"", with W/ in front if it is weak. Empty: none.
    std::string entity_tag{};
    std::optional<std::chrono::sys_seconds> modified{}; ///< the last change. Empty: not known
};

namespace detail {

/// Whether the request goes on. Otherwise it is answered.
[[nodiscard]] bool meets_conditions(const Request& request, Response& response,
                                    const std::optional<ResourceState>& state);

} // namespace detail

/// A filter for requests that depend on the state of a resource (RFC 9110, section 13). It asks for
/// the state before the handler runs:
///
///     http::Conditional([&](const http::Request& request) -> std::optional<http::ResourceState> {
///         const Item* item = store.find(request.parameter("id"));
///         if (item == nullptr) {
///             return std::nullopt;
///         }
///         return http::ResourceState{.entity_tag = item->tag()};
///     })
///
/// A GET or HEAD whose client has this state gets 304. A request whose condition fails gets 412: a
/// PUT with If-Match if the resource has changed meanwhile, or with "If-None-Match: *" if it
/// exists already. In both cases the handler is not called. Otherwise the response to a GET or HEAD
/// gets ETag and Last-Modified, which the handler may replace.
///
/// The function returns an empty optional for a resource that does not exist. It may also be a
/// coroutine that returns `Task<Result<std::optional<ResourceState>>>`; its errors count as the
/// handler's. The check and the handler are not atomic: where tasks or processes share the
/// resource, the handler must compare again when it changes it.
///
/// Place this filter behind authorization, so that a client without access does not learn the
/// state.
template <typename Find>
    requires std::invocable<Find&, const Request&>
class Conditional {
    using Found = std::invoke_result_t<Find&, const Request&>;
    static constexpr bool waits = std::same_as<Found, Task<Result<std::optional<ResourceState>>>>;
    static_assert(waits || std::convertible_to<Found, std::optional<ResourceState>>,
                  "the function returns std::optional<ResourceState>, or a Task of a Result of it");

public:
    explicit Conditional(Find find) : find_(std::move(find)) {}

    bool operator()(Request& request, Response& response)
        requires(!waits)
    {
        return detail::meets_conditions(request, response, find_(request));
    }

    template <typename Next>
        requires(waits)
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        const Result<std::optional<ResourceState>> state = co_await find_(request);
        if (!state) {
            co_return failure(state.error());
        }
        if (!detail::meets_conditions(request, response, *state)) {
            co_return Result<>();
        }
        co_return co_await next(request, response);
    }

private:
    Find find_;
};

/// A filter that adds an ETag, a digest of the body, to a response whose body the handler has set
/// as a whole, and answers 304 to a client that has this body. It saves sending the bytes, but not
/// the work to make them: `Conditional` saves that too. It does not change responses other than 200
/// to GET and HEAD, those that are sent in parts, and those that have an ETag.
class EntityTags {
public:
    template <typename Next>
    Task<Result<>> operator()(Request& request, Response& response, Next next) {
        const Result<> outcome = co_await next(request, response);
        if (outcome) {
            tag(request, response);
        }
        co_return outcome;
    }

private:
    static void tag(const Request& request, Response& response);
};

} // namespace penstock::http
