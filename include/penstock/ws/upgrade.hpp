#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include <penstock/http/upgrade.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/callbacks.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/options.hpp>

namespace penstock::ws {

/// Makes a WebSocket handler a route of an `http::Server`, so that both protocols share the port,
/// the encryption and the shutdown:
///
///     http::Server server;
///     server.get("/", page);
///     server.upgrade("/chat", "websocket", ws::upgrade_handler(chat));
///
/// `handler` is the same as for `ws::Server::serve`, and gets a socket after its opening handshake.
/// When the handler has returned, the connection is closed: with code 1000, or 1011 if the handler
/// returned an error other than the end of the connection, or threw. `http::Server::stop` sends
/// each client a close frame with code 1001, which the handler sees as `Error::closed`.
///
/// Errors: `http::ServerOptions::on_failure` gets those of the handshake and of the handler, and
/// the handler's exceptions.
///
/// Cancellation: cancels the handler, and closes the connection without a close frame.
[[nodiscard]] std::function<Task<Result<>>(http::Upgrade&)>
upgrade_handler(Handler handler, AcceptOptions options = {});

/// The same with a handler that is a set of functions.
[[nodiscard]] std::function<Task<Result<>>(http::Upgrade&)>
upgrade_handler(Callbacks callbacks, AcceptOptions options = {});

/// The same with a handler that returns nothing.
template <typename Function>
    requires std::same_as<std::invoke_result_t<Function&, WebSocket&>, Task<void>>
[[nodiscard]] std::function<Task<Result<>>(http::Upgrade&)>
upgrade_handler(Function handler, AcceptOptions options = {}) {
    return upgrade_handler(without_error(std::move(handler)), std::move(options));
}

} // namespace penstock::ws
