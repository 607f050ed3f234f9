#include <penstock/ws/upgrade.hpp>

#include <penstock/sync/event.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/web_socket.hpp>

#include "ws/conversation.hpp"

namespace penstock::ws {

namespace {

Task<void> close_at_stop(sync::Event& stopping, WebSocket& socket) {
    if (co_await stopping.wait()) {
        (void)co_await socket.begin_close(close_code::going_away, detail::stop_reason);
    }
}

Task<Result<>> serve(http::Upgrade& upgrade, const Handler& handler, const AcceptOptions& options) {
    Result<WebSocket> accepted = co_await WebSocket::accept(upgrade, options);
    if (!accepted) {
        // The program itself has refused, or the client has gone.
        const std::error_code error = accepted.error();
        co_return error == Error::refused || detail::is_end_of_connection(error) ? Result<>()
                                                                                 : failure(error);
    }
    WebSocket& socket = *accepted;
    Result<> served;
    const auto conversation = [&](Scope& scope) -> Task<void> {
        scope.spawn(close_at_stop(upgrade.stopping(), socket));
        served = co_await detail::converse(socket, handler);
        scope.cancel();
    };
    (void)co_await with_scope(conversation);
    co_return served;
}

} // namespace

std::function<Task<Result<>>(http::Upgrade&)> upgrade_handler(Handler handler,
                                                              AcceptOptions options) {
    return [handler = std::move(handler), options = std::move(options)](http::Upgrade& upgrade) {
        return serve(upgrade, handler, options);
    };
}

} // namespace penstock::ws
