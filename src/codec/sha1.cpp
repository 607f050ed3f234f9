#include "codec/sha1.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace penstock::codec {

namespace {

constexpr std::size_t block_size = 64;

class Sha1 {
public:
    void add_block(const std::byte* block) noexcept {
        std::array<std::uint32_t, 80> words;
        for (std::size_t i = 0; i < 16; ++i) {
            words[i] = 0;
            for (std::size_t k = 0; k < 4; ++k) {
                words[i] = words[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + k]);
            }
        }
        for (std::size_t i = 16; i < words.size(); ++i) {
            words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
        }
        auto [a, b, c, d, e] = state_;
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::uint32_t mixed = 0;
            std::uint32_t constant = 0;
            if (i < 20) {
                mixed = (b & c) | (~b & d);
                constant = 0x5a827999;
            } else if (i < 40) {
                mixed = b ^ c ^ d;
                constant = 0x6ed9eba1;
            } else if (i < 60) {
                mixed = (b & c) | (b & d) | (c & d);
                constant = 0x8f1bbcdc;
            } else {
                mixed = b ^ c ^ d;
                constant = 0xca62c1d6;
            }
            const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + words[i];
            e = d;
            d = c;
            c = std::rotl(b, 30);
            b = a;
            a = next;
        }
        state_[0] += a;
        state_[1] += b;
        state_[2] += c;
        state_[3] += d;
        state_[4] += e;
    }

    [[nodiscard]] std::array<std::byte, 20> digest() const noexcept {
        std::array<std::byte, 20> digest;
        for (std::size_t i = 0; i < digest.size(); ++i) {
            digest[i] = static_cast<std::byte>(state_[i / 4] >> (8 * (3 - i % 4)));
        }
        return digest;
    }

private:
    std::array<std::uint32_t, 5> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
};

} // namespace

std::array<std::byte, 20> sha1(std::string_view text) noexcept {
    Sha1 hash;
    const std::uint64_t bits = std::uint64_t{text.size()} * 8;
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    std::size_t left = text.size();
    for (; left >= block_size; left -= block_size, bytes += block_size) {
        hash.add_block(bytes);
    }
    // The rest, a one bit, zeros, and the length in bits fill one or two blocks.
    std::array<std::byte, 2 * block_size> end{};
    if (left != 0) {
        std::memcpy(end.data(), bytes, left);
    }
    end[left] = std::byte{0x80};
    const std::size_t size = left + 9 <= block_size ? block_size : 2 * block_size;
    for (std::size_t i = 0; i < 8; ++i) {
        end[size - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
    }
    hash.add_block(end.data());
    if (size > block_size) {
        hash.add_block(end.data() + block_size);
    }
    return hash.digest();
}

} // namespace penstock::codec
