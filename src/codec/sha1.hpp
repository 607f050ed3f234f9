#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace penstock::codec {

/// SHA-1 (FIPS 180-4) of a short text. The WebSocket handshake needs it as a checksum, not for
/// security, so the codecs do not need OpenSSL.
[[nodiscard]] std::array<std::byte, 20> sha1(std::string_view text) noexcept;

} // namespace penstock::codec
