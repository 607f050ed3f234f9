#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// The limit of `read_all` and `read_all_text` if none is given, in bytes.
inline constexpr std::size_t default_read_all_limit = std::size_t{64} * 1024 * 1024;

namespace detail {

template <typename Container, Reader From>
Task<Result<Container>> read_all_into(From& from, std::size_t limit) {
    constexpr std::size_t first_size = 4096;
    // Asks for one byte more than the limit, to learn whether the stream is longer.
    const std::size_t most = limit + (limit < std::numeric_limits<std::size_t>::max() ? 1 : 0);
    Container content;
    std::size_t size = 0;
    for (;;) {
        if (size == content.size()) {
            content.resize(std::min(std::max(first_size, size * 2), most));
        }
        const Result<std::size_t> count =
            co_await from.read(MutableBytes(content.data() + size, content.size() - size));
        if (!count) {
            co_return failure(count.error());
        }
        if (*count == 0) {
            content.resize(size);
            co_return content;
        }
        size += *count;
        if (size > limit) {
            co_return failure(std::errc::message_size);
        }
    }
}

} // namespace detail

/// Reads a stream to its end. Errors: those of the stream, and `message_size` if the stream has
/// more than `limit` bytes. After an error or a cancellation, what was read is lost.
template <Reader From>
[[nodiscard]] Task<Result<std::vector<std::byte>>>
read_all(From& from, std::size_t limit = default_read_all_limit) {
    return detail::read_all_into<std::vector<std::byte>>(from, limit);
}

/// The same as text. The bytes are not checked.
template <Reader From>
[[nodiscard]] Task<Result<std::string>> read_all_text(From& from,
                                                      std::size_t limit = default_read_all_limit) {
    return detail::read_all_into<std::string>(from, limit);
}

} // namespace penstock
