#pragma once

#include <cstddef>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>

namespace penstock::ws::detail {

/// The bytes of a frame, in the pieces that are written one after the other:
///
///     while (frame.next()) { write frame.head() and frame.body() in one call }
///
/// A server's frame is one piece: a small payload is copied behind the header, a large one is not.
/// A client's payload is masked in a borrowed buffer, so a large one is several pieces. When it is
/// moved, its piece goes along.
class OutgoingFrame {
public:
    using Options = codec::websocket::FrameHeader::Options;

    /// Where the payload is.
    enum class Place : unsigned char {
        elsewhere, ///< it is not changed
        owned,     ///< there is room for the header before it, and it may be masked in place
    };

    /// Throws `std::system_error` if a mask key is needed and the kernel has no random bytes.
    OutgoingFrame(codec::websocket::Role role, codec::websocket::Opcode opcode, Bytes payload,
                  Options options, Place place);

    /// Prepares the next piece. False if there is none. Throws `std::bad_alloc`.
    [[nodiscard]] bool next();

    [[nodiscard]] Bytes head() const noexcept {
        return head_is_header_ ? Bytes(header_.bytes()) : head_;
    }
    /// What follows the head. May be empty.
    [[nodiscard]] Bytes body() const noexcept { return body_; }

private:
    void put_header_before_payload() noexcept;
    [[nodiscard]] bool mask_some();

    codec::websocket::MaskKey key_{};
    codec::websocket::FrameHeader header_;
    Bytes payload_;
    Bytes head_{};
    Bytes body_{};
    std::size_t masked_ = 0;
    Chunk buffer_{};
    bool masks_;
    bool begun_ = false;
    bool head_is_header_ = false; ///< which moves with this object
    Place place_;
};

} // namespace penstock::ws::detail
