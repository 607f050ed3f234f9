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

/// Makes a WebSocket handler a route of an `http::Server`, so that both protocols share a port, its
/// encryption and its shutdown:
///
///     http::Server server;
///     server.get("/", page);
///     server.upgrade("/chat", "websocket", ws::upgrade_handler(chat));
///
/// `handler` is what `ws::Server::serve` takes, and gets a socket whose opening handshake is done.
/// When it returns, the connection is closed: with code 1000, or 1011 if it returned an error other
/// than the end of the connection, or threw an exception. `http::Server::stop` sends each client a
/// close frame with code 1001, which the handler sees as `Error::closed`.
///
/// Errors, including those of the handshake, and exceptions are passed to
/// `http::ServerOptions::on_failure`.
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
