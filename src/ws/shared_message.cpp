#include "ws/shared_message.hpp"

#include <algorithm>
#include <utility>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/ws/detail/connection.hpp>

namespace penstock::ws {

namespace websocket = codec::websocket;

namespace {

std::vector<std::byte> frame_of(websocket::Opcode opcode, std::span<const std::byte> payload,
                                websocket::FrameHeader::Options options) {
    const std::size_t header = websocket::FrameHeader::size_of(payload.size());
    std::vector<std::byte> frame(header + payload.size());
    websocket::FrameHeader::write(frame.data(), opcode, payload.size(), options);
    std::ranges::copy(payload, frame.begin() + static_cast<std::ptrdiff_t>(header));
    return frame;
}

} // namespace

SharedMessage::State::State(websocket::Opcode kind, Bytes payload)
    : opcode(kind), header_size(websocket::FrameHeader::size_of(payload.size())),
      plain(frame_of(kind, payload, {})) {}

Bytes SharedMessage::State::deflated(const Compression& compression, int window_bits) {
    std::vector<std::byte>& frame = by_window[static_cast<std::size_t>(
        std::clamp(window_bits, least_bits, most_bits) - least_bits)];
    if (frame.empty()) {
        codec::ByteBuffer output;
        compression.make_deflater(compression, window_bits, true)
            ->deflate(std::span(plain).subspan(header_size), true, output);
        frame = frame_of(opcode, output.bytes(), {.final = true, .compressed = true});
    }
    return Bytes(frame);
}

SharedMessage::SharedMessage(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

SharedMessage SharedMessage::text(std::string_view text) {
    return SharedMessage(std::make_shared<State>(websocket::Opcode::text, Bytes(text)));
}

SharedMessage SharedMessage::binary(Bytes payload) {
    return SharedMessage(std::make_shared<State>(websocket::Opcode::binary, payload));
}

bool SharedMessage::is_text() const noexcept {
    return state_->opcode == websocket::Opcode::text;
}

Bytes SharedMessage::payload() const noexcept {
    return Bytes(state_->plain.data() + state_->header_size,
                 state_->plain.size() - state_->header_size);
}

Bytes SharedMessage::frame() const noexcept {
    return Bytes(state_->plain);
}

Bytes detail::Connection::frame_of(const SharedMessage& message) {
    if (!compressor || message.payload().size() < compressor->threshold) {
        return Bytes(message.state_->plain);
    }
    const Bytes frame = message.state_->deflated(compressor->compression, compressor->window_bits);
    // The peer's window has this message from now on, and that of the own compressor has not.
    compressor->deflater->forget();
    return frame;
}

} // namespace penstock::ws
