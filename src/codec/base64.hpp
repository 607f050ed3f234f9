#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace penstock::codec {

/// The characters of base64 (RFC 4648, 4).
inline constexpr std::string_view base64_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The size of `count` bytes in base64, with padding.
[[nodiscard]] constexpr std::size_t base64_size(std::size_t count) noexcept {
    return (count + 2) / 3 * 4;
}

/// Writes `bytes` in base64 with padding to `out`, which has room for `base64_size`.
void encode_base64(std::span<const std::byte> bytes, char* out) noexcept;

} // namespace penstock::codec
