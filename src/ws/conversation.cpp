#include "ws/conversation.hpp"

#include <exception>
#include <new>
#include <utility>

#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

namespace {

Task<void> close_one(std::shared_ptr<OpenSocket> open) {
    (void)co_await open->socket.begin_close(close_code::going_away, stop_reason);
}

} // namespace

OpenSocket::OpenSocket(WebSocket&& accepted, Scope& connections) noexcept
    : socket(std::move(accepted)), scope(connections) {}

void OpenSocket::end() noexcept {
    try {
        scope.spawn(close_one(shared_from_this()));
    } catch (const std::bad_alloc&) {
        return; // its handler is cancelled after the grace
    }
}

bool is_end_of_connection(std::error_code error) noexcept {
    return error == Error::closed || error == Error::truncated ||
           error == std::errc::connection_reset || error == std::errc::broken_pipe ||
           error == std::errc::operation_canceled;
}

Task<Result<>> end_conversation(WebSocket& socket, Result<> served, bool thrown) {
    const auto ended_by_peer = [&](std::error_code error) {
        const bool answers_no_ping =
            error == std::errc::timed_out && socket.close_code() == close_code::abnormal;
        return answers_no_ping || is_end_of_connection(error);
    };
    if (!served && ended_by_peer(served.error())) {
        served = Result<>();
    }
    const bool normal = !thrown && served;
    // Whether the peer answers says nothing about the conversation.
    (void)co_await socket.close(normal ? close_code::normal : close_code::internal_error);
    co_return served;
}

Task<Result<>> converse(WebSocket& socket, const Handler& handler) {
    Result<> served;
    std::exception_ptr thrown;
    try {
        served = co_await handler(socket);
    } catch (...) {
        thrown = std::current_exception();
    }
    served = co_await end_conversation(socket, served, thrown != nullptr);
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    co_return served;
}

} // namespace penstock::ws::detail
