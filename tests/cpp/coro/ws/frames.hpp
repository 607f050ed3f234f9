// Frames as a peer sends them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/codec/websocket/masking.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::testing {

/// A frame of a client.
inline std::string frame(codec::websocket::Opcode opcode, std::string_view payload,
                         bool final = true) {
    const codec::websocket::MaskKey key{std::byte{1}, std::byte{200}, std::byte{3}, std::byte{77}};
    const codec::websocket::FrameHeader header(opcode, payload.size(), key, {.final = final});
    std::string text(reinterpret_cast<const char*>(header.bytes().data()), header.bytes().size());
    std::string masked(payload.size(), ' ');
    codec::websocket::copy_masked(reinterpret_cast<std::byte*>(masked.data()), Bytes(payload), key);
    return text + masked;
}

/// A frame of a server.
inline std::string plain_frame(codec::websocket::Opcode opcode, std::string_view payload) {
    const codec::websocket::FrameHeader header(opcode, payload.size());
    std::string text(reinterpret_cast<const char*>(header.bytes().data()), header.bytes().size());
    return text.append(payload);
}

} // namespace penstock::testing
