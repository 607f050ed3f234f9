#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

// Text in the buffer of a response that is being made.

/// Throws `std::bad_alloc`.
inline void append(codec::ByteBuffer& buffer, std::string_view text) {
    buffer.append(std::as_bytes(std::span(text)));
}

[[nodiscard]] inline std::string_view text_in(codec::ByteBuffer& buffer) noexcept {
    return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()};
}

/// Appends what `write` makes with a HeadWriter, with more room until that suffices. False if a
/// text cannot be sent. Throws `std::bad_alloc`.
template <typename Write> bool append_head(codec::ByteBuffer& buffer, Write write) {
    for (std::size_t size = 512;; size *= 2) {
        const std::span<std::byte> room = buffer.room(size);
        codec::http::HeadWriter head({reinterpret_cast<char*>(room.data()), room.size()});
        write(head);
        if (!head.overflowed()) {
            buffer.commit(head.failed() ? 0 : head.text().size());
            return !head.failed();
        }
    }
}

} // namespace penstock::python
