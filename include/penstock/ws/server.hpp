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

struct ServerOptions {
    /// Of each connection.
    AcceptOptions accept{};
    /// Makes the encrypted stream of a wss server. `tls::server_encryption(context)` of
    /// <tls/encryption.hpp> returns one. Without it, the server speaks ws.
    std::function<Task<Result<AnyStream>>(net::TcpStream)> encrypt{};
    /// How many connections may be open, at least 1. Further ones wait until one has ended: one is
    /// accepted, the others stay in the kernel's queue.
    std::size_t maximum_connections = 1'000'000;
    /// Gets the error of each connection that failed: its handshake, or its handler. Also, at most
    /// once a second, the reason why none can be accepted: no descriptors or no memory. The end of
    /// a connection by its peer is not an error, whether it closes, resets or disappears. Null:
    /// dropped. It must not throw.
    std::function<void(std::error_code)> on_error{};
    /// Gets each exception of a handler, or of `encrypt`, which ends its connection alone. Null:
    /// its message is written to the standard error stream, because it is a defect of the program.
    /// It must not throw.
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
/// A WebSocket beside HTTP on one port is a route of `http::Server`: `upgrade_handler`.
///
///     ws::Server server = co_await unwrap(ws::Server::listen(net::Endpoint::loopback(8080)));
///     co_await unwrap(server.serve(echo)); // until server.shutdown(5s) of another task
///
/// Thread safety: only on the thread of the loop that serves. Must not be moved while it serves.
/// For a server on several loops, see `run_on` and `net::TcpListener::Options::reuse_port`.
class Server {
public:
    /// Serves a connection. When it returns, the connection is closed: with code 1000, or 1011 if
    /// it returned an error other than the end of the connection, or threw an exception.
    using Handler = ws::Handler;

    /// Errors: those of `net::TcpListener::listen`, and `invalid_argument` if
    /// `ServerOptions::maximum_connections` is 0.
    [[nodiscard]] static Result<Server> listen(const net::Endpoint& endpoint,
                                               ServerOptions options = {});

    /// Throws `std::invalid_argument` if `ServerOptions::maximum_connections` is 0.
    explicit Server(net::TcpListener listener, ServerOptions options = {});
    /// On a Unix socket, where nothing is encrypted: `ServerOptions::encrypt` is not called.
    explicit Server(net::UnixListener listener, ServerOptions options = {});
    Server(Server&&) noexcept;
    Server& operator=(Server&&) noexcept;
    ~Server();

    /// Errors: those of getsockname(2), and `address_family_not_supported` on a Unix socket.
    [[nodiscard]] Result<net::Endpoint> local_endpoint() const;

    /// Accepts connections, and runs `handler` for each, in a task of its own, once its opening
    /// handshake is done. The handler is kept until the end, so it may capture. A connection that
    /// fails ends alone. When the process has no descriptors left, accepting pauses.
    ///
    /// Returns after `shutdown`, when all connections have ended. Errors: `operation_canceled`,
    /// those of accept(2) that a retry does not remove, `device_or_resource_busy` if it serves
    /// already.
    ///
    /// Cancellation: cancels all handlers, and returns when they have ended.
    [[nodiscard]] Task<Result<>> serve(Handler handler);

    /// The same with a handler that returns nothing.
    template <typename Function>
        requires std::same_as<std::invoke_result_t<Function&, WebSocket&>, Task<void>>
    [[nodiscard]] Task<Result<>> serve(Function handler) {
        return serve(without_error(std::move(handler)));
    }

    /// The same with a handler that is a set of functions, and costs an idle connection a third of
    /// the memory.
    [[nodiscard]] Task<Result<>> serve(Callbacks callbacks);

    /// Ends `serve` gracefully: no connections are accepted any more, and each one gets a close
    /// frame with code 1001, which its handler sees as `Error::closed`. Handlers that have not
    /// ended after `grace` are cancelled. Before `serve`, it makes that return at once. Further
    /// calls do nothing.
    void shutdown(std::chrono::milliseconds grace = std::chrono::seconds(10));

    /// Open connections, including those still in the handshake.
    [[nodiscard]] std::size_t connections() const noexcept;

private:
    struct State; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

    penstock::detail::MovableState<State> state_;
};

} // namespace penstock::ws
