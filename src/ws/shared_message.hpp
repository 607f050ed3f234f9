#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/ws/compression.hpp>
#include <penstock/ws/shared_message.hpp>

namespace penstock::ws {

struct SharedMessage::State {
    State(codec::websocket::Opcode kind, Bytes payload);

    /// The frame with the message in a window of this size, without references to earlier ones.
    [[nodiscard]] Bytes deflated(const Compression& compression, int window_bits);

    static constexpr int least_bits = 8;
    static constexpr int most_bits = 15;

    codec::websocket::Opcode opcode;
    std::size_t header_size;
    std::vector<std::byte> plain; ///< the whole frame
    std::array<std::vector<std::byte>, most_bits - least_bits + 1> by_window;
};

} // namespace penstock::ws
