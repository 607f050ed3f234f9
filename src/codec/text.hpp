#pragma once

#include <cstddef>
#include <string_view>

/// Pieces of text that several formats share.
namespace penstock::codec {

/// `text` without the spaces and tabs at its ends: OWS (RFC 9110, 5.6.3).
[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) noexcept {
    const std::size_t begin = text.find_first_not_of(" \t");
    return begin == std::string_view::npos
               ? std::string_view()
               : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// The value of a hexadecimal digit of either case; -1 for another character.
[[nodiscard]] constexpr int hex_value(char c) noexcept {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

} // namespace penstock::codec
