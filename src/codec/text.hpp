#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

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

/// The number that `text` writes in decimal digits, and in nothing else. A number beyond 64 bits is
/// `too_large`.
[[nodiscard]] inline std::optional<std::uint64_t>
number_in(std::string_view text, std::optional<std::uint64_t> too_large = std::nullopt) noexcept {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end != text.data() + text.size()) {
        return std::nullopt;
    }
    if (error == std::errc::result_out_of_range) {
        return too_large;
    }
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// Appends the shortest decimal that is `value`.
template <typename Number> void append_number(std::string& text, Number value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text.append(digits.data(), end);
}

} // namespace penstock::codec
