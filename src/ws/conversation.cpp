#include "ws/conversation.hpp"

#include <exception>

#include <penstock/ws/errors.hpp>

namespace penstock::ws::detail {

bool is_end_of_connection(std::error_code error) noexcept {
    return error == Error::closed || error == Error::truncated ||
           error == std::errc::operation_canceled;
}

Task<Result<>> end_conversation(WebSocket& socket, Result<> served, bool thrown) {
    const bool normal = !thrown && (served || is_end_of_connection(served.error()));
    const Result<> closed =
        co_await socket.close(normal ? close_code::normal : close_code::internal_error);
    co_return normal && !closed && !is_end_of_connection(closed.error()) ? closed : served;
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
