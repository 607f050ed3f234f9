#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <penstock/stream/bytes.hpp>

namespace penstock::ws {

/// A received message. A view: valid until the next `receive` or `close` of its `WebSocket`.
struct Message {
    enum class Kind : std::uint8_t { text, binary };

    Kind kind = Kind::binary;
    /// May be changed in place.
    std::span<std::byte> payload;

    [[nodiscard]] bool is_text() const noexcept { return kind == Kind::text; }
    /// The payload as characters. Valid UTF-8 if `is_text()`.
    [[nodiscard]] std::string_view text() const noexcept {
        return {reinterpret_cast<const char*>(payload.data()), payload.size()};
    }
};

/// A part of a received message. A view: valid until the next receive or `close` of its
/// `WebSocket`. The parts of a text message are valid UTF-8 together; one may end inside a
/// character.
struct MessagePart {
    Message::Kind kind = Message::Kind::binary;
    bool first = false; ///< the message begins with this part
    bool last = false;  ///< the message ends with this part
    /// May be empty. May be changed in place.
    std::span<std::byte> payload;
};

} // namespace penstock::ws
