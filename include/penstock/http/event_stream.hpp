#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

/// An event for an EventSource (WHATWG HTML, 9.2). Texts are UTF-8.
struct ServerEvent {
    /// Any number of lines, which may end with LF, CR or CRLF. The client sees LF. Without data the
    /// client only remembers `id` and `retry`.
    std::optional<std::string_view> data{};
    std::string_view event{}; ///< the type. Empty: the client takes "message"
    /// What the client sends as Last-Event-ID when it connects again. An empty text makes the
    /// client forget the last one.
    std::optional<std::string_view> id{};
    /// How long the client waits before it connects again.
    std::optional<std::chrono::milliseconds> retry{};

    /// The event as it is sent. Throws `std::invalid_argument` for a type or id with a line end or
    /// NUL, and for a `retry` below 0; `std::bad_alloc`.
    [[nodiscard]] std::string to_string() const;
};

struct EventStreamOptions {
    /// After this time without an event, a comment is sent. It keeps proxies from closing the
    /// connection, and fails if the client has gone. 0: no comments.
    std::chrono::milliseconds keep_alive = std::chrono::seconds(15);
};

/// The response of a handler that sends events as long as the client listens. See `event_stream`.
///
/// Thread safety: only on the thread of its connection's loop. Several tasks may send.
class EventStream {
public:
    EventStream(const EventStream&) = delete;
    EventStream& operator=(const EventStream&) = delete;

    [[nodiscard]] Request& request() noexcept { return request_; }
    /// The id of the last event that this client has seen, if it connects again.
    [[nodiscard]] std::optional<std::string_view> last_event_id() const noexcept {
        return request_.header("Last-Event-ID");
    }

    /// Sends an event, whose texts are copied at once. Waits while the client reads slowly, so that
    /// a program can leave events out. Errors and cancellation: as `Response::write_all`. Throws as
    /// `ServerEvent::to_string`.
    [[nodiscard]] Task<Result<>> send(ServerEvent event);
    /// Sends an event without type and id.
    [[nodiscard]] Task<Result<>> send(std::string_view data) {
        return send(ServerEvent{.data = data});
    }
    /// Sends a comment, which the client ignores. Line ends begin another comment.
    [[nodiscard]] Task<Result<>> comment(std::string_view text);

private:
    friend class EventSourceHandler;
    EventStream(Request& request, Response& response, EventStreamOptions options) noexcept
        : request_(request), response_(response), options_(options) {}

    [[nodiscard]] Task<Result<>> write(std::string text);
    [[nodiscard]] Task<Result<>> keep_alive();

    Request& request_;
    Response& response_;
    EventStreamOptions options_;
    sync::Mutex writing_;
    std::chrono::steady_clock::time_point sent_;
};

/// The handler of a route that sends events. Made by `event_stream`.
class EventSourceHandler {
public:
    using Source = std::function<Task<Result<>>(EventStream&)>;

    EventSourceHandler(Source source, EventStreamOptions options)
        : source_(std::move(source)), options_(options) {}

    Task<Result<>> operator()(Request& request, Response& response) const;

private:
    Source source_;
    EventStreamOptions options_;
};

/// A handler that sends server-sent events (WHATWG HTML, 9.2):
///
///     server.get("/prices", http::event_stream([&](http::EventStream& events) -> Task<Result<>> {
///         for (;;) {
///             const Price price = co_await unwrap(prices.receive());
///             co_await unwrap(events.send({.data = price.text(), .id = price.number()}));
///         }
///     }));
///
/// `source` is cancelled when the client has gone: as `RouteOptions::when_client_goes` says, or if
/// a keep-alive comment cannot be sent. When `source` ends by itself, the client connects again. To
/// stop the client, answer its next request with status 204. The response tells caches not to store
/// it and nginx not to buffer it. HEAD is answered without calling `source`.
[[nodiscard]] inline EventSourceHandler event_stream(EventSourceHandler::Source source,
                                                     EventStreamOptions options = {}) {
    return {std::move(source), options};
}

} // namespace penstock::http
