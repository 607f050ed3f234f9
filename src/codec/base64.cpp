#include "codec/base64.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace penstock::codec {

void encode_base64(std::span<const std::byte> bytes, char* out) noexcept {
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < have ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            *out++ = k <= have ? base64_alphabet[group >> (18 - 6 * k) & 63] : '=';
        }
    }
}

std::optional<std::string> decode_base64(std::string_view text) {
    const std::size_t end = text.find_last_not_of('=') + 1; // 0 where there is none
    const std::size_t padding = text.size() - end;
    if (end % 4 == 1 || padding > 2 || (padding != 0 && text.size() % 4 != 0)) {
        return std::nullopt;
    }
    std::string bytes;
    bytes.reserve(end * 3 / 4);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : text.substr(0, end)) {
        const std::size_t value = base64_alphabet.find(c);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes += static_cast<char>(bits >> count & 0xFF);
            bits &= (1U << count) - 1;
        }
    }
    return bits == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

} // namespace penstock::codec
