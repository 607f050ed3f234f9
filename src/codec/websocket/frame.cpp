#include <penstock/codec/websocket/frame.hpp>

#include <algorithm>
#include <cstring>

namespace penstock::codec::websocket {

namespace {

constexpr auto final_bit = std::byte{0x80};
constexpr auto compressed_bit = std::byte{0x40};
constexpr auto mask_bit = std::byte{0x80};

} // namespace

void FrameHeader::write(std::byte* out, Opcode opcode, std::uint64_t payload_size,
                        Options options) noexcept {
    out[0] = static_cast<std::byte>(opcode) | (options.final ? final_bit : std::byte{}) |
             (options.compressed ? compressed_bit : std::byte{});
    if (payload_size < 126) {
        out[1] = static_cast<std::byte>(payload_size);
    } else if (payload_size < 65536) {
        out[1] = std::byte{126};
        out[2] = static_cast<std::byte>(payload_size >> 8);
        out[3] = static_cast<std::byte>(payload_size);
    } else {
        out[1] = std::byte{127};
        for (int i = 0; i < 8; ++i) {
            out[2 + i] = static_cast<std::byte>(payload_size >> (8 * (7 - i)));
        }
    }
}

FrameHeader::FrameHeader(Opcode opcode, std::uint64_t payload_size, Options options) noexcept
    : size_(static_cast<std::uint8_t>(size_of(payload_size))) {
    write(bytes_.data(), opcode, payload_size, options);
}

FrameHeader::FrameHeader(Opcode opcode, std::uint64_t payload_size, const MaskKey& key,
                         Options options) noexcept
    : FrameHeader(opcode, payload_size, options) {
    bytes_[1] |= mask_bit;
    std::copy(key.begin(), key.end(), bytes_.begin() + size_);
    size_ += static_cast<std::uint8_t>(key.size());
}

ClosePayload::ClosePayload(std::uint16_t code, std::string_view reason) noexcept {
    if (code == close_code::none) {
        return;
    }
    bytes_[0] = static_cast<std::byte>(code >> 8);
    bytes_[1] = static_cast<std::byte>(code);
    std::size_t size = std::min(reason.size(), maximum_control_payload - 2);
    while (size < reason.size() && size > 0 && (reason[size] & 0xc0) == 0x80) {
        --size;
    }
    if (size != 0) {
        std::memcpy(bytes_.data() + 2, reason.data(), size);
    }
    size_ = size + 2;
}

} // namespace penstock::codec::websocket
