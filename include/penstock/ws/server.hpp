#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/moved_from.hpp>
#include <penstock/net/endpoint.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/callbacks.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/options.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// The settings of a `Server`.
struct ServerOptions {
    /// The options of each connection.
    AcceptOptions accept{};
    /// Makes the encrypted stream of a wss server. `tls::server_encryption(context)` of
    /// <tls/encryption.hpp> returns one. Null: the server speaks ws.
    std::function<Task<Result<AnyStream>>(net::TcpStream)> encrypt{};
    /// How many connections may be open, at least 1. Further ones wait until one has ended: one of
    /// them is accepted, the others stay in the kernel's queue.
    std::size_t maximum_connections = 1'000'000;
    /// Gets the error of each connection whose handshake or handler failed and, at most once a
    /// second, the error of accept(2): no descriptors or no memory. The end of a connection by its
    /// peer is not an error, whether the peer closes, resets or disappears. Null: errors are
    /// dropped. It must not throw.
    std::function<void(std::error_code)> on_error{};
    /// Gets each exception of a handler, or of `encrypt`. An exception ends only its connection.
    /// Null: the exception's message is written to standard error, because an exception is a defect
    /// of the program. It must not throw.
    std::function<void(const std::exception_ptr&)> on_exception{};
};

/// A WebSocket server on a TCP port or a Unix socket.
///
///     Task<Result<>> echo(ws::WebSocket& socket) {
///         for (;;) {
///             const ws::Message message = co_await unwrap(socket.receive());
///             co_await unwrap(socket.send(message));
///         }
///     }
///
///     ws::Server server = co_await unwrap(ws::Server::listen(net::Endpoint::loopback(8080)));
///     co_await unwrap(server.serve(echo)); // until server.shutdown(5s) of another task
///
/// To serve WebSocket and HTTP on one port, use `http::Server` and `upgrade_handler`.
///
/// Thread safety: only on the thread of the loop that serves. The object must not be moved while it
/// serves. For a server on several loops, see `run_on` and `net::TcpListener::Options::reuse_port`.
class Server {
public:
    /// Serves a connection. When the handler has returned, the server closes the connection: with
    /// code 1000, or 1011 if the handler returned an error other than the end of the connection, or
    /// threw.
    using Handler = ws::Handler;

    /// Errors: those of `net::TcpListener::listen`, and `invalid_argument` if
    /// `ServerOptions::maximum_connections` is 0.
    [[nodiscard]] static Result<Server> listen(const net::Endpoint& endpoint,
                                               ServerOptions options = {});

    /// Throws `std::invalid_argument` if `ServerOptions::maximum_connections` is 0.
    explicit Server(net::TcpListener listener, ServerOptions options = {});
    /// The same on a Unix socket, without encryption: `ServerOptions::encrypt` is not called.
    explicit Server(net::UnixListener listener, ServerOptions options = {});
    Server(Server&&) noexcept;
    Server& operator=(Server&&) noexcept;
    ~Server();

    /// The address of the listener. Errors: those of getsockname(2), and
    /// `address_family_not_supported` on a Unix socket.
    [[nodiscard]] Result<net::Endpoint> local_endpoint() const;

    /// Accepts connections. Each one has a task, which makes the opening handshake and runs
    /// `handler`. The handler is kept until the end, so it may capture. A failure ends only its own
    /// connection. When the process has no descriptors left, accepting pauses.
    ///
    /// Returns after `shutdown`, when all connections have ended. Errors: `operation_canceled`,
    /// those of accept(2) that a retry does not mend, `device_or_resource_busy` if the server
    /// serves already.
    ///
    /// Cancellation: cancels all handlers, and returns when they have ended.
    [[nodiscard]] Task<Result<>> serve(Handler handler);

    /// The same with a handler that returns nothing.
    template <typename Function>
        requires std::same_as<std::invoke_result_t<Function&, WebSocket&>, Task<void>>
    [[nodiscard]] Task<Result<>> serve(Function handler) {
        return serve(without_error(std::move(handler)));
    }

    /// The same with a handler that is a set of functions. An idle connection then needs a third of
    /// the memory.
    [[nodiscard]] Task<Result<>> serve(Callbacks callbacks);

    /// Ends `serve` gracefully: the server accepts no more connections, and sends each client a
    /// close frame with code 1001, which the handler sees as `Error::closed`. Handlers that have
    /// not ended after `grace` are cancelled. If called before `serve`, that returns at once.
    /// Further calls do nothing.
    void shutdown(std::chrono::milliseconds grace = std::chrono::seconds(10));

    /// Open connections, including those still in the handshake.
    [[nodiscard]] std::size_t connections() const noexcept;

private:
    struct State; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

    penstock::detail::MovableState<State> state_;
};

} // namespace penstock::ws
