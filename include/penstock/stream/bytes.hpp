#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace penstock {

namespace detail {

template <typename T>
concept ByteLike =
    std::same_as<std::remove_cv_t<T>, std::byte> || std::same_as<std::remove_cv_t<T>, char> ||
    std::same_as<std::remove_cv_t<T>, unsigned char> || std::same_as<std::remove_cv_t<T>, char8_t>;

template <typename R>
concept ByteRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                    ByteLike<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

template <typename R>
concept MutableByteRange =
    ByteRange<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

template <typename R>
concept CharacterLiteral = std::is_array_v<std::remove_reference_t<R>> &&
                           std::same_as<std::ranges::range_reference_t<R>, const char&>;

} // namespace detail

/// Bytes to write: a view of any contiguous range of `std::byte`, `char` or `unsigned char`, such
/// as a string, a vector, an array or a span. The viewed range must live until the operation has
/// ended. `co_await stream.write_all(text)` guarantees that.
///
/// A string literal (an array of constant `char`) is viewed without its terminating zero.
class Bytes : public std::span<const std::byte> {
public:
    constexpr Bytes() = default;

    template <typename Range>
        requires(detail::ByteRange<Range&> && !std::same_as<std::remove_cvref_t<Range>, Bytes> &&
                 !detail::CharacterLiteral<Range>)
    Bytes(Range&& range) // NOLINT(bugprone-forwarding-reference-overload)
        : span(reinterpret_cast<const std::byte*>(std::ranges::data(range)),
               std::ranges::size(range)) {}

    Bytes(const char* text) : Bytes(std::string_view(text)) {}

    Bytes(const void* data, std::size_t size) : span(static_cast<const std::byte*>(data), size) {}
};

/// A buffer to read into: a view of a mutable contiguous range of bytes.
class MutableBytes : public std::span<std::byte> {
public:
    constexpr MutableBytes() = default;

    template <typename Range>
        requires(detail::MutableByteRange<Range&> &&
                 !std::same_as<std::remove_cvref_t<Range>, MutableBytes>)
    MutableBytes(Range&& range) // NOLINT(bugprone-forwarding-reference-overload)
        : span(reinterpret_cast<std::byte*>(std::ranges::data(range)), std::ranges::size(range)) {}

    MutableBytes(void* data, std::size_t size) : span(static_cast<std::byte*>(data), size) {}
};

} // namespace penstock
