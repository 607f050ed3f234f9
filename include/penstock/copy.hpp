#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <penstock/all.hpp>
#include <penstock/bytes.hpp>
#include <penstock/stream.hpp>
#include <penstock/task.hpp>

namespace penstock {

/// How much `copy` moves at a time.
inline constexpr std::size_t copy_buffer_size = std::size_t{64} * 1024;

/// Reads `from` to its end and writes all of it to `to`; yields how many bytes that was. The first error
/// of either is the result. A cancelled copy may have read what it has not written.
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
        // Of a peer that has gone meanwhile there is nothing left to tell.
        if (const Result<> ended = to.shutdown();
            !ended && ended.error() != std::errc::not_connected) {
            co_return failure(ended.error());
        }
    }
    co_return copied;
}

} // namespace detail

/// Joins two streams, as a proxy does: what comes from one goes to the other, in both directions at once.
/// When one direction has ended, its end is passed on and the other goes on. Yields how many bytes went
/// from `a` to `b` and from `b` to `a`; the first error ends both.
template <HalfClosable A, HalfClosable B>
[[nodiscard]] Task<Result<std::tuple<std::uint64_t, std::uint64_t>>> copy_bidirectional(A& a,
                                                                                        B& b) {
    return all(detail::copy_and_shut_down(a, b), detail::copy_and_shut_down(b, a));
}

} // namespace penstock
