#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::codec::websocket {

/// Which end of the connection a codec serves. A client masks what it sends; a server does not
/// (RFC 6455, 5.1).
enum class Role : std::uint8_t { client, server };

/// RFC 6455, 5.2.
enum class Opcode : std::uint8_t {
    continuation = 0x0,
    text = 0x1,
    binary = 0x2,
    close = 0x8,
    ping = 0x9,
    pong = 0xa,
};

/// Four bytes in the order in which they are sent.
using MaskKey = std::array<std::byte, 4>;

/// The largest payload of a control frame (RFC 6455, 5.5).
inline constexpr std::size_t maximum_control_payload = 125;
/// The largest frame header: 2 bytes, 8 of length, 4 of mask.
inline constexpr std::size_t maximum_frame_header = 14;

/// Close codes (RFC 6455, 7.4.1, and IANA's registry).
namespace close_code {
inline constexpr std::uint16_t normal = 1000;
inline constexpr std::uint16_t going_away = 1001;
inline constexpr std::uint16_t protocol_error = 1002;
inline constexpr std::uint16_t unsupported_data = 1003;
inline constexpr std::uint16_t none = 1005;     ///< never sent: the close frame had no code
inline constexpr std::uint16_t abnormal = 1006; ///< never sent: there was no close frame
inline constexpr std::uint16_t invalid_payload = 1007;
inline constexpr std::uint16_t policy_violation = 1008;
inline constexpr std::uint16_t message_too_big = 1009;
inline constexpr std::uint16_t missing_extension = 1010;
inline constexpr std::uint16_t internal_error = 1011;
inline constexpr std::uint16_t service_restart = 1012;
inline constexpr std::uint16_t try_again_later = 1013;
inline constexpr std::uint16_t bad_gateway = 1014;
} // namespace close_code

/// Whether a close frame may have that code: 1000 to 1003, 1007 to 1014, 3000 to 4999.
[[nodiscard]] constexpr bool may_be_sent(std::uint16_t code) noexcept {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/// The header of a frame, ready to be sent before its payload.
///
///     FrameHeader header(Opcode::text, text.size());               // a server: then the payload
///     FrameHeader header(Opcode::text, text.size(), keys.next());  // a client: payload masked
class FrameHeader {
public:
    struct Options {
        bool final = true;       ///< false if more frames of this message follow
        bool compressed = false; ///< RSV1, on the first frame of a compressed message (RFC 7692, 6)
    };

    FrameHeader(Opcode opcode, std::uint64_t payload_size, Options options) noexcept;
    FrameHeader(Opcode opcode, std::uint64_t payload_size, const MaskKey& key,
                Options options) noexcept;
    FrameHeader(Opcode opcode, std::uint64_t payload_size) noexcept
        : FrameHeader(opcode, payload_size, Options{}) {}
    FrameHeader(Opcode opcode, std::uint64_t payload_size, const MaskKey& key) noexcept
        : FrameHeader(opcode, payload_size, key, Options{}) {}

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {bytes_.data(), size_};
    }

    /// The size of a header without a mask key.
    [[nodiscard]] static constexpr std::size_t size_of(std::uint64_t payload_size) noexcept {
        return payload_size < 126 ? 2 : payload_size < 65536 ? 4 : 10;
    }
    /// Writes a header without a mask key to `out`, for a caller with `size_of(payload_size)` bytes
    /// of room in front of a payload.
    static void write(std::byte* out, Opcode opcode, std::uint64_t payload_size,
                      Options options) noexcept;

private:
    std::array<std::byte, maximum_frame_header> bytes_;
    std::uint8_t size_;
};

/// The payload of a close frame. A reason is cut to 123 bytes, between two characters. Code
/// `close_code::none` gives an empty payload, and any other that `may_be_sent` refuses is a broken
/// contract.
class ClosePayload {
public:
    explicit ClosePayload(std::uint16_t code, std::string_view reason = {}) noexcept;
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {bytes_.data(), size_};
    }

private:
    std::array<std::byte, maximum_control_payload> bytes_;
    std::size_t size_ = 0;
};

} // namespace penstock::codec::websocket
