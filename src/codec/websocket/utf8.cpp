#include <penstock/codec/websocket/utf8.hpp>

#include <bit>
#include <cstring>

namespace penstock::codec::websocket {

namespace {

constexpr std::uint64_t tops = 0x8080808080808080;

std::uint64_t word_at(const std::byte* place) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, place, sizeof word);
    return word;
}

/// The first byte of [place, end) that is not ASCII, or `end`.
const std::byte* skip_ascii(const std::byte* place, const std::byte* end) noexcept {
    for (; end - place >= 32; place += 32) {
        const std::uint64_t all =
            word_at(place) | word_at(place + 8) | word_at(place + 16) | word_at(place + 24);
        if ((all & tops) != 0) {
            break;
        }
    }
    for (; end - place >= 8; place += 8) {
        const std::uint64_t found = word_at(place) & tops;
        if (found != 0) {
            if constexpr (std::endian::native == std::endian::little) {
                return place + (std::countr_zero(found) >> 3);
            }
            break;
        }
    }
    while (place != end && *place < std::byte{0x80}) {
        ++place;
    }
    return place;
}

} // namespace

bool Utf8Validator::add(std::span<const std::byte> part) noexcept {
    const std::byte* place = part.data();
    const std::byte* const end = place + part.size();
    for (;;) {
        while (needed_ != 0) {
            if (place == end) {
                return true;
            }
            const auto byte = std::to_integer<std::uint8_t>(*place);
            if (byte < lowest_ || byte > highest_) {
                return false;
            }
            ++place;
            --needed_;
            lowest_ = 0x80;
            highest_ = 0xbf;
        }
        if (place != end && *place < std::byte{0x80}) {
            place = skip_ascii(place, end);
        }
        if (place == end) {
            return true;
        }
        ascii_ = false;
        const auto lead = std::to_integer<std::uint8_t>(*place);
        ++place;
        if (lead < 0xc2 || lead > 0xf4) {
            return false; // a continuation byte, an overlong form, or beyond U+10FFFF
        }
        if (lead < 0xe0) {
            needed_ = 1;
        } else if (lead < 0xf0) {
            needed_ = 2;
            lowest_ = lead == 0xe0 ? 0xa0 : 0x80;  // not overlong
            highest_ = lead == 0xed ? 0x9f : 0xbf; // no surrogates
        } else {
            needed_ = 3;
            lowest_ = lead == 0xf0 ? 0x90 : 0x80;  // not overlong
            highest_ = lead == 0xf4 ? 0x8f : 0xbf; // not beyond U+10FFFF
        }
    }
}

} // namespace penstock::codec::websocket
