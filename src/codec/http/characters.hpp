#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

/// Classes of characters in HTTP messages, and the search for the end of a run of one class.
namespace penstock::codec::http {

enum Class : std::uint8_t {
    token_character = 1,  ///< RFC 9110, 5.6.2
    target_character = 2, ///< visible ASCII without "#", which begins a fragment: RFC 9112, 3.2
    name_character = 4,   ///< RFC 3986, 3.2.2: reg-name without its percent-encoded triplets
    digit = 8,
    hex_digit = 16,
    letter = 32,
};

consteval std::array<std::uint8_t, 256> classify() {
    std::array<std::uint8_t, 256> table{};
    const auto add = [&table](const char* text, std::uint8_t kind) {
        for (; *text != '\0'; ++text) {
            table[static_cast<unsigned char>(*text)] |= kind;
        }
    };
    for (int c = 0x21; c < 0x7f; ++c) {
        table[static_cast<std::size_t>(c)] |= c == '#' ? 0 : target_character;
    }
    add("0123456789", digit | hex_digit | token_character | name_character);
    add("abcdefABCDEF", hex_digit);
    add("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        letter | token_character | name_character);
    add("!#$%&'*+-.^_`|~", token_character);
    add("-._~!$&'()*+,;=", name_character);
    return table;
}

inline constexpr std::array<std::uint8_t, 256> classes = classify();

[[nodiscard]] inline bool is(char c, Class kind) noexcept {
    return (classes[static_cast<unsigned char>(c)] & kind) != 0;
}

/// The first character of [begin, end) that is not of that class, or `end`.
[[nodiscard]] inline const char* skip(const char* begin, const char* end, Class kind) noexcept {
    while (begin != end && is(*begin, kind)) {
        ++begin;
    }
    return begin;
}

/// Whether all characters are of that class. Four at a time: names and hosts of every message are
/// checked.
[[nodiscard]] inline bool consists_of(std::string_view text, Class kind) noexcept {
    const auto class_of = [&text](std::size_t at) noexcept {
        return classes[static_cast<unsigned char>(text[at])];
    };
    std::size_t at = 0;
    for (; text.size() - at >= 4; at += 4) {
        if ((class_of(at) & class_of(at + 1) & class_of(at + 2) & class_of(at + 3) & kind) == 0) {
            return false;
        }
    }
    for (; at < text.size(); ++at) {
        if ((class_of(at) & kind) == 0) {
            return false;
        }
    }
    return true;
}

[[nodiscard]] inline bool is_control(char c) noexcept {
    const auto value = static_cast<unsigned char>(c);
    return (value < 0x20 && value != '\t') || value == 0x7f;
}

/// The first control character other than HTAB in [begin, end), or `end`: the end of a field value.
[[nodiscard]] inline const char* find_control(const char* begin, const char* end) noexcept {
    constexpr std::uint64_t ones = 0x0101010101010101;
    constexpr std::uint64_t tops = 0x8080808080808080;
    if constexpr (std::endian::native == std::endian::little) {
        for (; end - begin >= 8; begin += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, begin, sizeof word);
            // The top bit of each byte that is below 0x20, or is 0x7f. A borrow can only set
            // wrong bits above a right one, and only the lowest is used.
            const std::uint64_t low = (word - ones * 0x20) & ~word;
            const std::uint64_t deleted = word ^ (ones * 0x7f);
            std::uint64_t found = (low | ((deleted - ones) & ~deleted)) & tops;
            while (found != 0) {
                const char* place = begin + (std::countr_zero(found) >> 3);
                if (is_control(*place)) {
                    return place;
                }
                found &= found - 1;
            }
        }
    }
    while (begin != end && !is_control(*begin)) {
        ++begin;
    }
    return begin;
}

} // namespace penstock::codec::http
