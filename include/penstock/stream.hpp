#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <penstock/bytes.hpp>
#include <penstock/detail/children.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// Yields bytes: `co_await reader.read(buffer)` is how many, 0 at the end. What all streams of this
/// library, and `BufReader` itself, are; a program's own types may be too, with tasks for operations.
template <typename T>
concept Reader = requires(T& reader, MutableBytes into) {
    requires std::same_as<Awaited<decltype(reader.read(into))>, Result<std::size_t>>;
};

/// Takes bytes: `co_await writer.write_all(bytes)` returns when all have been taken.
template <typename T>
concept Writer = requires(T& writer, Bytes from) {
    requires std::same_as<Awaited<decltype(writer.write_all(from))>, Result<>>;
};

/// Both.
template <typename T>
concept Stream = Reader<T> && Writer<T>;

/// A stream whose writing side can be ended alone.
template <typename T>
concept HalfClosable = Stream<T> && requires(T& stream) {
    { stream.shutdown() } -> std::same_as<Result<>>;
};

} // namespace penstock
