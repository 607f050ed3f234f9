#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::codec::websocket {

/// Checks UTF-8 (RFC 3629: no surrogates, no overlong forms, nothing beyond U+10FFFF) that arrives
/// in parts, and finds a fault at its first wrong byte.
class Utf8Validator {
public:
    /// Checks the next part. False if the text can no longer become valid; then only `reset` may
    /// follow.
    [[nodiscard]] bool add(std::span<const std::byte> part) noexcept;

    /// Whether the text may end here, not inside a character.
    [[nodiscard]] bool complete() const noexcept { return needed_ == 0; }

    /// Whether all parts were ASCII.
    [[nodiscard]] bool ascii() const noexcept { return ascii_; }

    void reset() noexcept { *this = {}; }

private:
    std::uint8_t needed_ = 0;    ///< continuation bytes that the character lacks
    std::uint8_t lowest_ = 0x80; ///< bounds of the next one
    std::uint8_t highest_ = 0xbf;
    bool ascii_ = true;
};

} // namespace penstock::codec::websocket
