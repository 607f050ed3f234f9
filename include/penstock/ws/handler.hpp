#pragma once

#include <functional>
#include <utility>

#include <penstock/result.hpp>
#include <penstock/task/task.hpp>
#include <penstock/ws/web_socket.hpp>

namespace penstock::ws {

/// Serves one connection of a server.
using Handler = std::function<Task<Result<>>(WebSocket&)>;

/// A handler that returns nothing as one that returns a success.
template <typename Function> [[nodiscard]] Handler without_error(Function handler) {
    return [handler = std::move(handler)](WebSocket& socket) mutable -> Task<Result<>> {
        co_await handler(socket);
        co_return Result<>();
    };
}

} // namespace penstock::ws
