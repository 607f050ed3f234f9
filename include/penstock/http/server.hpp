#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/http/detail/router.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/open_connection.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/http/server_options.hpp>
#include <penstock/http/static_files.hpp>
#include <penstock/http/upgrade.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::http {

namespace detail {

struct ServerState; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

/// A call for each request.
template <typename H>
concept RequestHandler =
    std::invocable<H&, Request&, Response&> &&
    (std::same_as<std::invoke_result_t<H&, Request&, Response&>, Task<Result<>>> ||
     std::same_as<std::invoke_result_t<H&, Request&, Response&>, Task<void>> ||
     std::same_as<std::invoke_result_t<H&, Request&, Response&>, Result<>> ||
     std::is_void_v<std::invoke_result_t<H&, Request&, Response&>>);

template <typename H>
concept UpgradeHandler = std::invocable<H&, Upgrade&> &&
                         std::same_as<std::invoke_result_t<H&, Upgrade&>, Task<Result<>>>;

} // namespace detail

/// A server of HTTP/1.1 (RFC 9110, RFC 9112) and, with `ServerOptions::http2`, of HTTP/2, over any
/// stream: TCP, Unix sockets, TLS.
///
///     http::Server server;
///     server.get("/hello/{name}", [](http::Request& request, http::Response& response) {
///         response.body("Hello, " + request.parameter("name") + "\n");
///     });
///     server.post("/upload", [](http::Request& request, http::Response& response)
///                                -> Task<Result<>> {
///         fs::File file = co_await unwrap(fs::File::open(...));
///         co_await unwrap(copy(request, file));
///         co_return Result<>();
///     }, {.body_limit = 1 << 30});
///     co_await server.serve(std::move(listener));
///
/// Connections stay open for further requests (keep-alive). Pipelined requests are answered in
/// their order. `ServerLimits` and `ServerTimeouts` are on by default. The server refuses a request
/// that breaks RFC 9112, or that two recipients could read differently (request smuggling), and
/// closes its connection.
///
/// Handlers. A handler gets the request and the response. It is a coroutine that returns
/// `Task<Result<>>` or `Task<void>`, or a function that returns `Result<>` or nothing. The server
/// keeps it, so it may capture. If it returns an error or throws, the client gets status 500, and
/// `ServerOptions::on_failure` gets the error. If the response has begun, the connection is reset
/// instead.
///
/// Routes. A pattern is a path whose segments may be parameters: "/users/{id}". A last parameter
/// may take the rest of the path: "/files/{path...}". Segments are compared with the decoded path.
/// A literal segment has priority over a parameter. The server answers an unknown path with 404,
/// another method with 405 and Allow, and OPTIONS with Allow. The handler of GET answers HEAD; its
/// body is not sent.
///
/// Several listeners may be served at the same time: a `Server` is shared by the tasks of one loop.
/// With `run_on`, make one for each loop.
///
/// Thread safety: only on the thread of its loop.
class Server {
public:
    Server() : Server(ServerOptions()) {}
    /// Throws `std::invalid_argument` if the server's name is not a valid field value or
    /// `ServerLimits::connections` is 0, and `std::runtime_error` if `ServerOptions::http2` is set
    /// and libnghttp2 cannot be loaded.
    explicit Server(ServerOptions options);
    /// Every `serve` must have ended before.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// Adds a route. Throws `std::invalid_argument` for a pattern that is malformed or was added
    /// before with this method.
    template <detail::RequestHandler H>
    void route(Method method, std::string_view pattern, H handler,
               const RouteOptions& options = {}) {
        add(method.name(), pattern, {}, make_handler(std::move(handler)), options);
    }
    template <detail::RequestHandler H>
    void get(std::string_view pattern, H handler, const RouteOptions& options = {}) {
        route(Method::get, pattern, std::move(handler), options);
    }
    template <detail::RequestHandler H>
    void post(std::string_view pattern, H handler, const RouteOptions& options = {}) {
        route(Method::post, pattern, std::move(handler), options);
    }
    template <detail::RequestHandler H>
    void put(std::string_view pattern, H handler, const RouteOptions& options = {}) {
        route(Method::put, pattern, std::move(handler), options);
    }
    template <detail::RequestHandler H>
    void patch(std::string_view pattern, H handler, const RouteOptions& options = {}) {
        route(Method::patch, pattern, std::move(handler), options);
    }
    template <detail::RequestHandler H>
    void delete_(std::string_view pattern, H handler, const RouteOptions& options = {}) {
        route(Method::delete_, pattern, std::move(handler), options);
    }

    /// Adds a route whose handler takes the connection over: for GET requests with this protocol in
    /// their Upgrade field, such as "websocket". `ws::upgrade_handler` makes a handler for that. A
    /// GET route with the same pattern gets the other requests. Without such a route the server
    /// answers them with 426. Throws as `route`.
    template <detail::UpgradeHandler H>
    void upgrade(std::string_view pattern, std::string protocol, H handler) {
        detail::Handler made;
        made.upgrade = std::move(handler);
        add(Method::get.name(), pattern, std::move(protocol), std::move(made), {});
    }

    /// Adds a route for the files of a folder: `files("/static", "/srv/www")` answers
    /// "/static/a/b.html" with "/srv/www/a/b.html". See `StaticFiles`. Errors: those of opening the
    /// folder.
    [[nodiscard]] Result<> files(std::string_view prefix, std::string_view folder,
                                 const StaticFileOptions& options = {});

    /// Accepts connections and serves them, until `stop` or an error of the listener. The listener
    /// is any object with `accept` and `close`. A lack of descriptors or memory is reported to
    /// `on_failure`, at most once a second, and the server pauses before it accepts again. An
    /// exception of one connection is reported too, and ends only that connection.
    ///
    /// Several calls share `ServerLimits::connections`. At that limit, a new connection replaces
    /// the one that has waited for a request for the longest time, if that is longer than
    /// `ServerTimeouts::safe_idle`. While there is none, each listener holds one accepted
    /// connection until another one has ended.
    ///
    /// After `stop` the result is a success. Errors: `operation_canceled`, and those of accept(2)
    /// that a retry does not mend.
    ///
    /// Cancellation: closes all connections at once.
    template <typename Listener> [[nodiscard]] Task<Result<>> serve(Listener listener) {
        return serve(std::move(listener), AsIs());
    }

    /// The same, but passes each accepted stream to `prepare` and serves the stream that this
    /// returns. For TLS:
    ///
    ///     server.serve(std::move(listener), tls::server_encryption(context));
    ///
    /// `prepare` must finish within `ServerTimeouts::head`. `on_failure` gets its errors as notices
    /// and its exceptions as failures.
    template <typename Listener, typename Prepare>
    [[nodiscard]] Task<Result<>> serve(Listener listener, Prepare prepare) {
        auto one = [this, &prepare]<typename S>(S stream, AcceptLoop::Place place,
                                                AcceptLoop::Home& home) {
            return this->serve_one(std::move(stream), prepare, std::move(place), home);
        };
        co_return co_await accept_loop().serve(listener, one);
    }

    /// Serves one connection until it ends.
    template <Stream S> [[nodiscard]] Task<void> serve_connection(S stream) {
        return serve_stream(AnyStream(std::move(stream)), nullptr, nullptr);
    }

    /// Begins a graceful shutdown. Closes the listeners, and the connections that wait for a
    /// request: over TLS it sends close_notify and does not wait for the client's. The other
    /// connections end after the response to their current request. Those that have not ended after
    /// `grace` are cancelled. Then every `serve` returns. Further calls do nothing. The server
    /// cannot be started again: a later `serve` returns at once.
    template <typename Rep, typename Period>
    void stop(std::chrono::duration<Rep, Period> grace) noexcept {
        begin_stop(std::chrono::nanoseconds(penstock::detail::nanoseconds_of(grace)));
    }

    /// The number of open connections, including those in `prepare`.
    [[nodiscard]] std::size_t connections() const noexcept;

    /// The open connections, in the order in which they were accepted: the peer, since when, and
    /// what they do. Without those in `prepare`. Throws `std::bad_alloc`.
    [[nodiscard]] std::vector<OpenConnection> open_connections() const;

private:
    using AcceptLoop = penstock::detail::AcceptLoop;

    struct AsIs {};

    template <typename H> [[nodiscard]] static detail::Handler make_handler(H handler) {
        using Outcome = std::invoke_result_t<H&, Request&, Response&>;
        detail::Handler made;
        if constexpr (std::same_as<Outcome, Task<Result<>>>) {
            made.task = std::move(handler);
        } else if constexpr (std::same_as<Outcome, Task<void>>) {
            made.task = [handler = std::move(handler)](Request& request,
                                                       Response& response) mutable {
                return with_success(handler(request, response));
            };
        } else if constexpr (std::same_as<Outcome, Result<>>) {
            made.function = std::move(handler);
        } else {
            made.function = [handler = std::move(handler)](Request& request,
                                                           Response& response) mutable {
                handler(request, response);
                return Result<>();
            };
        }
        return made;
    }

    static Task<Result<>> with_success(Task<void> task) {
        co_await std::move(task);
        co_return Result<>();
    }

    template <typename S, typename Prepare>
    Task<void> serve_one(S stream, Prepare& prepare, AcceptLoop::Place place,
                         AcceptLoop::Home& home) {
        if constexpr (std::same_as<Prepare, AsIs>) {
            co_await serve_stream(AnyStream(std::move(stream)), &home, &place);
        } else {
            auto prepared = co_await timeout(handshake_time(), prepare(std::move(stream)));
            if (!prepared) {
                report_handshake(prepared.error());
                co_return;
            }
            co_await serve_stream(AnyStream(std::move(*prepared)), &home, &place);
        }
    }

    void add(std::string_view method, std::string_view pattern, std::string protocol,
             detail::Handler handler, const RouteOptions& options);
    /// `home` and `place` are those of an accepted connection, or null.
    [[nodiscard]] Task<void> serve_stream(AnyStream stream, AcceptLoop::Home* home,
                                          AcceptLoop::Place* place);
    [[nodiscard]] AcceptLoop& accept_loop() noexcept;
    [[nodiscard]] std::chrono::milliseconds handshake_time() const noexcept;
    void begin_stop(std::chrono::nanoseconds grace) noexcept;
    void report_handshake(std::error_code error) const noexcept;

    std::unique_ptr<detail::ServerState> state_;
};

} // namespace penstock::http
