#include <penstock/ws/errors.hpp>

#include <string>
#include <system_error>

#include <penstock/io/never_destroyed.hpp>

namespace penstock::ws {

namespace {

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.ws"; }

    [[nodiscard]] std::string message(int value) const override {
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
        return "unknown error " + std::to_string(value);
    }

    [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
        switch (static_cast<Error>(value)) {
        case Error::protocol_violation:
        case Error::invalid_payload:
        case Error::message_too_big:
        case Error::invalid_http:
        case Error::unexpected_extension:
            return std::errc::protocol_error;
        default:
            return {value, *this};
        }
    }
};

class HandshakeCategory final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.ws.handshake"; }

    [[nodiscard]] std::string message(int value) const override {
        return std::string(codec::websocket::describe(static_cast<HandshakeError>(value)));
    }

    [[nodiscard]] std::error_condition default_error_condition(int) const noexcept override {
        return std::errc::protocol_error;
    }
};

} // namespace

const std::error_category& error_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

const std::error_category& handshake_category() noexcept {
    static const io::NeverDestroyed<HandshakeCategory> category;
    return *category;
}

} // namespace penstock::ws
