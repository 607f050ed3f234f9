#include "ws/conversation.hpp"

#include <exception>

#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

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
