#pragma once

#include <system_error>

#include <penstock/codec/websocket/handshake.hpp>

namespace penstock::ws {

/// Why a WebSocket connection cannot continue. Violations by the peer, and each `HandshakeError`,
/// also compare equal to `std::errc::protocol_error`.
enum class Error {
    closed = 1,           ///< the close handshake has begun: no more messages
    truncated,            ///< the stream ended without a close frame, or inside the handshake
    broken,               ///< an earlier send was cancelled or failed, perhaps inside a frame
    protocol_violation,   ///< the peer broke RFC 6455; close code 1002 was sent
    invalid_payload,      ///< a text is not UTF-8, or compressed data is invalid; 1007 was sent
    message_too_big,      ///< a message is larger than the limit; close code 1009 was sent
    invalid_http,         ///< the head of the handshake is not HTTP/1.1, or larger than the limits
    unexpected_extension, ///< the server uses an extension that was not offered
    refused,              ///< `AcceptOptions::check` has refused the request
    proxy_refused,        ///< the proxy has refused a tunnel: its status is not 2xx
};

/// The category of `Error`. Its name is "penstock.ws".
[[nodiscard]] const std::error_category& error_category() noexcept;

/// The category of `HandshakeError`. Its name is "penstock.ws.handshake".
[[nodiscard]] const std::error_category& handshake_category() noexcept;

/// Makes `result.error() == ws::Error::closed` work.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), error_category()};
}

/// Why an opening handshake is invalid (RFC 6455, section 4).
using HandshakeError = codec::websocket::HandshakeError;

} // namespace penstock::ws

namespace penstock::codec::websocket {

/// Makes `result.error() == ws::HandshakeError::unexpected_status` work.
[[nodiscard]] inline std::error_code make_error_code(HandshakeError error) noexcept {
    return {static_cast<int>(error), ws::handshake_category()};
}

} // namespace penstock::codec::websocket

template <> struct std::is_error_code_enum<penstock::ws::Error> : std::true_type {};
template <>
struct std::is_error_code_enum<penstock::codec::websocket::HandshakeError> : std::true_type {};
