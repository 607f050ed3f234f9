#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock {

/// A source of bytes: `co_await reader.read(buffer)` returns the number of bytes, 0 at the end. All
/// streams of this library and `BufReader` are readers. A program's own type is one if `read`
/// returns a task or operation.
template <typename T>
concept Reader = requires(T& reader, MutableBytes into) {
    requires std::same_as<Awaited<decltype(reader.read(into))>, Result<std::size_t>>;
};

/// A sink of bytes: `co_await writer.write_all(bytes)` returns when all bytes are accepted.
template <typename T>
concept Writer = requires(T& writer, Bytes from) {
    requires std::same_as<Awaited<decltype(writer.write_all(from))>, Result<>>;
};

/// A reader and writer.
template <typename T>
concept Stream = Reader<T> && Writer<T>;

/// A stream whose write side can be shut down separately.
template <typename T>
concept HalfClosable = Stream<T> && requires(T& stream) {
    { stream.shutdown() } -> std::same_as<Result<>>;
};

} // namespace penstock
