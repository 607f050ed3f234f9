#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <penstock/stream/bytes.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// The buffer size of `copy`, in bytes.
inline constexpr std::size_t copy_buffer_size = std::size_t{64} * 1024;

/// Reads `from` to its end and writes all bytes to `to`. Returns the number of bytes. The first
/// error of either stream ends the copy. A cancelled or failed copy may have read bytes that it has
/// not written.
template <Reader From, Writer To>
[[nodiscard]] Task<Result<std::uint64_t>> copy(From& from, To& to) {
    std::vector<std::byte> buffer(copy_buffer_size);
    std::uint64_t copied = 0;
    for (;;) {
        const Result<std::size_t> count = co_await from.read(buffer);
        if (!count) {
            co_return failure(count.error());
        }
        if (*count == 0) {
            co_return copied;
        }
        if (const Result<> written = co_await to.write_all(Bytes(buffer.data(), *count));
            !written) {
            co_return failure(written.error());
        }
        copied += *count;
    }
}

namespace detail {

template <Reader From, HalfClosable To>
Task<Result<std::uint64_t>> copy_and_shut_down(From& from, To& to) {
    const Result<std::uint64_t> copied = co_await copy(from, to);
    if (copied) {
        // A peer that has closed the connection needs no end of stream.
        if (const Result<> ended = to.shutdown();
            !ended && ended.error() != std::errc::not_connected) {
            co_return failure(ended.error());
        }
    }
    co_return copied;
}

} // namespace detail

/// Copies between two streams in both directions at once, as a proxy does. When one direction
/// reaches its end, `shutdown` passes the end on and the other direction continues. Returns the
/// number of bytes from `a` to `b` and from `b` to `a`. The first error cancels both directions.
template <HalfClosable A, HalfClosable B>
[[nodiscard]] Task<Result<std::tuple<std::uint64_t, std::uint64_t>>> copy_bidirectional(A& a,
                                                                                        B& b) {
    return all(detail::copy_and_shut_down(a, b), detail::copy_and_shut_down(b, a));
}

} // namespace penstock
