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

/// An HTTP/1.1 server (RFC 9110, RFC 9112), and one of HTTP/2 (`ServerOptions::http2`), over any
/// streams: TCP, Unix sockets, TLS.
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
/// Connections stay open for further requests (keep-alive). Requests that arrive before the earlier
/// ones are answered (pipelining) are answered in their order. `ServerLimits` and `ServerTimeouts`
/// are on by default. A request that breaks RFC 9112, or that two recipients could understand in
/// two ways, is refused and its connection closed.
///
/// Handlers. A handler is called with the request and the response, and is a coroutine that returns
/// `Task<Result<>>` or `Task<void>`, or a function that returns `Result<>` or nothing. The server
/// keeps it, so it may capture. An error or an exception becomes a response with status 500, and is
/// passed to `ServerOptions::on_failure`. If the response has begun, the connection is reset
/// instead.
///
/// Routes. A pattern is a path whose segments may be parameters: "/users/{id}". A last one takes
/// the rest of the path: "/files/{path...}". Literal segments are preferred to parameters. They are
/// compared with the decoded path. An unknown path is answered with 404, another method with 405
/// and Allow, OPTIONS with Allow, and HEAD by the handler of GET, whose body is not sent.
///
/// Several listeners may be served at the same time: a `Server` is shared by the tasks of one loop.
/// With `run_on`, make one for each loop.
///
/// Thread safety: only on the thread of its loop.
class Server {
public:
    Server() : Server(ServerOptions()) {}
    /// Throws `std::invalid_argument` if the server's name is not a valid field value, or if
    /// `ServerLimits::connections` is 0, and `std::runtime_error` if HTTP/2 is wanted and its
    /// library is not there.
    explicit Server(ServerOptions options);
    /// After every `serve` has ended.
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

    /// Adds a route whose handler takes the connection over: GET requests with this protocol in
    /// their Upgrade field, such as "websocket". `ws::upgrade_handler` makes a handler for that. A
    /// GET route with the same pattern gets the other requests. Without one they are answered with
    /// 426.
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
    /// `on_failure`, at most once a second, and accepting goes on after a moment. What one
    /// connection throws is reported too, and ends that one alone.
    ///
    /// Several calls share `ServerLimits::connections`. There, the connection that waits for a
    /// request for the longest time is closed in favour of the new one, after
    /// `ServerTimeouts::safe_idle`. While there is none, each listener holds one accepted
    /// connection until another one has ended.
    ///
    /// After `stop` the result is a success.
    ///
    /// Cancellation: closes all connections at once.
    template <typename Listener> [[nodiscard]] Task<Result<>> serve(Listener listener) {
        return serve(std::move(listener), AsIs());
    }

    /// The same, and passes each accepted stream to `prepare`, whose stream is then served. For
    /// TLS:
    ///
    ///     server.serve(std::move(listener), tls::server_encryption(context));
    ///
    /// It must finish within `ServerTimeouts::head`. Its errors are passed to `on_failure` as
    /// notices, its exceptions as failures.
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

    /// Begins a graceful shutdown. Listeners are closed, and connections that wait for a request:
    /// an encrypted one with the end of the encrypted stream, without waiting for the client's. The
    /// others end after the response to their current request. Those that have not ended after
    /// `grace` are cancelled. Every `serve` returns then. Further calls do nothing. The server
    /// cannot be started again: a later `serve` returns at once.
    template <typename Rep, typename Period>
    void stop(std::chrono::duration<Rep, Period> grace) noexcept {
        begin_stop(std::chrono::nanoseconds(penstock::detail::nanoseconds_of(grace)));
    }

    /// The number of connections that are served, including those that `prepare` still works on.
    [[nodiscard]] std::size_t connections() const noexcept;

    /// Who they are, since when, and what they do, in the order in which they were accepted. Those
    /// that `prepare` works on are not among them. Throws `std::bad_alloc`.
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
