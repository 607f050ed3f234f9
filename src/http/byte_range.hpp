#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock::http {

/// A part of a representation.
struct ByteRange {
    std::uint64_t begin = 0;
    std::uint64_t size = 0; ///< 0: the range lies outside
};

/// The range that a Range field asks for (RFC 9110, section 14.1.2), of a representation of `size`
/// bytes. Nothing if the field is to be ignored: malformed, of another unit, with several ranges,
/// or if there are no bytes.
[[nodiscard]] std::optional<ByteRange> parse_range(std::string_view field,
                                                   std::uint64_t size) noexcept;

} // namespace penstock::http
