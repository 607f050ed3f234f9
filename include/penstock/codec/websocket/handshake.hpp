#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/head_writer.hpp>

namespace penstock::codec::websocket {

/// Why an opening handshake is refused (RFC 6455, 4).
enum class HandshakeError : std::uint8_t {
    none,
    invalid_method,      ///< not GET
    unsupported_http,    ///< HTTP/1.0
    missing_upgrade,     ///< no "Upgrade: websocket"
    missing_connection,  ///< no "Connection: Upgrade"
    unsupported_version, ///< Sec-WebSocket-Version is not 13; the answer is 426 and names 13
    invalid_key,         ///< Sec-WebSocket-Key is missing, repeated, or not 16 bytes in base64
    unexpected_body,     ///< the request has a body
    unexpected_status,   ///< the response is not 101
    invalid_accept,      ///< Sec-WebSocket-Accept does not fit the key
    invalid_subprotocol, ///< the response names a subprotocol that was not offered
};

[[nodiscard]] std::string_view describe(HandshakeError error) noexcept;

/// The status with which a server answers a request that has this error: 400, 405, 426 or 505.
[[nodiscard]] int status_for(HandshakeError error) noexcept;

/// Sixteen random bytes in base64, for Sec-WebSocket-Key.
class HandshakeKey {
public:
    /// From getrandom(2). Throws `std::system_error` if the kernel has no random bytes.
    HandshakeKey();
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_.size()}; }

private:
    std::array<char, 24> text_;
};

/// The value of Sec-WebSocket-Accept for a key.
class AcceptKey {
public:
    explicit AcceptKey(std::string_view key) noexcept;
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_.size()}; }

private:
    std::array<char, 28> text_;
};

/// Checks a client's request. Origin, subprotocol and extensions are the caller's to judge.
[[nodiscard]] HandshakeError check_request(const http::RequestHead& head) noexcept;

/// The Sec-WebSocket-Key of a request that `check_request` accepted.
[[nodiscard]] std::string_view key_of(const http::RequestHead& head) noexcept;

/// Checks a server's response to a request with that key and those subprotocols. The extensions are
/// the caller's to judge.
[[nodiscard]] HandshakeError
check_response(const http::ResponseHead& head, std::string_view key,
               std::span<const std::string_view> offered_subprotocols = {}) noexcept;

/// The first subprotocol that the request offers and the server supports; empty if there is none.
[[nodiscard]] std::string_view
select_subprotocol(const http::Fields& request,
                   std::span<const std::string_view> supported) noexcept;

/// Writes the request line and the fields that every handshake has, except Host. The caller adds
/// Host and what else it wants, and `end()`.
void write_request(http::HeadWriter& head, std::string_view target, std::string_view key) noexcept;

/// Writes the status line 101 and the fields that every response has. The caller adds subprotocol
/// and extensions, and `end()`.
void write_response(http::HeadWriter& head, std::string_view request_key) noexcept;

} // namespace penstock::codec::websocket
