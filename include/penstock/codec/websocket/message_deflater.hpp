#pragma once

#include <cstddef>
#include <span>

#include <penstock/codec/byte_buffer.hpp>

namespace penstock::codec::websocket {

/// Compresses the data of messages (RFC 7692). `Deflater` in deflate.hpp is the implementation on
/// zlib.
class MessageDeflater {
public:
    virtual ~MessageDeflater() = default;
    /// Appends the compressed `data` to `output`, without the four bytes that RFC 7692, 7.2.1
    /// removes. `last` ends the message; until then, the implementation may keep the data back.
    /// Throws `std::bad_alloc` only.
    virtual void deflate(std::span<const std::byte> data, bool last, ByteBuffer& output) = 0;
    /// Lets the next message refer to no earlier one. Not inside a message.
    virtual void forget() noexcept = 0;

protected:
    MessageDeflater() = default;
    MessageDeflater(const MessageDeflater&) = default;
    MessageDeflater& operator=(const MessageDeflater&) = default;
};

} // namespace penstock::codec::websocket
