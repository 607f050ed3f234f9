#pragma once

#include <memory>
#include <system_error>

#include <penstock/detail/server/accept_loop.hpp>
#include <penstock/result.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/handler.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws::detail {

/// The reason of a close frame at a graceful shutdown.
inline constexpr const char* stop_reason = "the server stops";

/// A connection whose handler runs. Shared with the task that closes it when the server stops.
struct OpenSocket final : penstock::detail::AcceptLoop::Endable,
                          std::enable_shared_from_this<OpenSocket> {
    OpenSocket(WebSocket&& accepted, Scope& connections) noexcept;

    void end() noexcept override;

    WebSocket socket;
    Scope& scope;
};

/// Whether an error says that the peer has gone, or that the task was cancelled.
[[nodiscard]] bool is_end_of_connection(std::error_code error) noexcept;

/// Closes a connection whose handler has ended: with code 1000, or 1011 if it has thrown, or
/// returned another error than the end of the connection. Returns that error.
[[nodiscard]] Task<Result<>> end_conversation(WebSocket& socket, Result<> served, bool thrown);

/// Runs the handler of an open connection, and ends the conversation. Rethrows an exception of the
/// handler then.
[[nodiscard]] Task<Result<>> converse(WebSocket& socket, const Handler& handler);

} // namespace penstock::ws::detail
