#include "codec/base64.hpp"

#include <algorithm>
#include <cstdint>

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

} // namespace penstock::codec
