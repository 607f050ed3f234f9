#include <penstock/ws/errors.hpp>

#include <string>
#include <system_error>

#include "detail/error_category.hpp"

namespace penstock::ws {

namespace {

struct WebSocketErrors {
    static constexpr const char* name = "penstock.ws";

    static std::string message(int value) {
        switch (static_cast<Error>(value)) {
        case Error::closed:
            return "the WebSocket connection is closed";
        case Error::truncated:
            return "the connection ended without a close frame";
        case Error::broken:
            return "an earlier send was cancelled or failed, so nothing more can be sent";
        case Error::protocol_violation:
            return "the peer violated the WebSocket protocol";
        case Error::invalid_payload:
            return "a text message is not valid UTF-8, or compressed data is invalid";
        case Error::message_too_big:
            return "a message is larger than the limit";
        case Error::invalid_http:
            return "the peer's handshake is not valid HTTP/1.1, or too large";
        case Error::unexpected_extension:
            return "the server uses an extension that was not offered";
        case Error::refused:
            return "the request was refused";
        case Error::proxy_refused:
            return "the proxy has refused to make a tunnel to the server";
        }
        return penstock::detail::unknown_error(value);
    }

    static std::errc condition(int value) noexcept {
        switch (static_cast<Error>(value)) {
        case Error::protocol_violation:
        case Error::invalid_payload:
        case Error::message_too_big:
        case Error::invalid_http:
        case Error::unexpected_extension:
            return std::errc::protocol_error;
        default:
            return {};
        }
    }
};

struct HandshakeErrors {
    static constexpr const char* name = "penstock.ws.handshake";

    static std::string message(int value) {
        return std::string(codec::websocket::describe(static_cast<HandshakeError>(value)));
    }

    static std::errc condition(int /*value*/) noexcept { return std::errc::protocol_error; }
};

} // namespace

const std::error_category& error_category() noexcept {
    return penstock::detail::category_of<WebSocketErrors>();
}

const std::error_category& handshake_category() noexcept {
    return penstock::detail::category_of<HandshakeErrors>();
}

} // namespace penstock::ws
