#include <penstock/ws/detail/outgoing_frame.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#include <penstock/codec/websocket/masking.hpp>
#include <penstock/ws/detail/handshake.hpp>

namespace penstock::ws::detail {

namespace websocket = codec::websocket;

namespace {

/// Up to this size, copying the payload behind the header costs less than a second part in the
/// system call.
constexpr std::size_t copy_limit = 8192;

std::span<std::byte> room_of(Chunk& buffer) {
    const std::span<std::byte> room = buffer.borrow();
    if (room.empty()) {
        throw std::bad_alloc();
    }
    return room;
}

} // namespace

OutgoingFrame::OutgoingFrame(websocket::Role role, websocket::Opcode opcode, Bytes payload,
                             Options options, Place place)
    : key_(role == websocket::Role::client ? next_mask_key() : websocket::MaskKey()),
      header_(role == websocket::Role::client
                  ? websocket::FrameHeader(opcode, payload.size(), key_, options)
                  : websocket::FrameHeader(opcode, payload.size(), options)),
      payload_(payload), masks_(role == websocket::Role::client), place_(place) {}

void OutgoingFrame::put_header_before_payload() noexcept {
    // The constructor's contract: these bytes belong to the frame.
    auto* start = const_cast<std::byte*>(payload_.data());
    if (masks_) {
        websocket::apply_mask({start, payload_.size()}, key_);
    }
    const std::span<const std::byte> header = header_.bytes();
    std::memcpy(start - header.size(), header.data(), header.size());
    head_ = Bytes(start - header.size(), header.size() + payload_.size());
}

bool OutgoingFrame::mask_some() {
    const std::span<std::byte> room = room_of(buffer_);
    std::size_t used = 0;
    if (!begun_) {
        used = header_.bytes().size();
        std::memcpy(room.data(), header_.bytes().data(), used);
    } else if (masked_ == payload_.size()) {
        return false;
    }
    const std::size_t count = std::min(payload_.size() - masked_, room.size() - used);
    websocket::copy_masked(room.data() + used, payload_.subspan(masked_, count), key_, masked_);
    masked_ += count;
    head_ = Bytes(room.data(), used + count);
    return true;
}

bool OutgoingFrame::next() {
    if (masks_ && place_ != Place::owned) {
        const bool more = mask_some();
        begun_ = true;
        return more;
    }
    if (begun_) {
        return false;
    }
    begun_ = true;
    const std::span<const std::byte> header = header_.bytes();
    if (place_ != Place::elsewhere) {
        put_header_before_payload();
    } else if (payload_.size() <= copy_limit) {
        const std::span<std::byte> room = room_of(buffer_);
        std::memcpy(room.data(), header.data(), header.size());
        if (!payload_.empty()) {
            std::memcpy(room.data() + header.size(), payload_.data(), payload_.size());
        }
        head_ = Bytes(room.data(), header.size() + payload_.size());
    } else {
        head_is_header_ = true;
        body_ = payload_;
    }
    return true;
}

} // namespace penstock::ws::detail
