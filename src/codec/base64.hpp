#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
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

/// The bytes of a text in base64; nothing if it is none. Padding may be missing, and the bits that
/// no byte has must be 0 (RFC 4648, 3.5). Throws `std::bad_alloc`.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

} // namespace penstock::codec
