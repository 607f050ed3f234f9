#include "http/byte_range.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <penstock/codec/http/fields.hpp>

#include "codec/text.hpp"

namespace penstock::http {

namespace {

/// A number that is too large is the largest.
std::optional<std::uint64_t> number(std::string_view text) noexcept {
    return codec::number_in(text, UINT64_MAX);
}

} // namespace

std::optional<ByteRange> parse_range(std::string_view field, std::uint64_t size) noexcept {
    // A suffix is satisfiable there, and no Content-Range can tell so. nginx and Go ignore all
    // ranges of nothing too.
    if (size == 0) {
        return std::nullopt;
    }
    constexpr std::string_view unit = "bytes=";
    if (!codec::http::equal_ignoring_case(field.substr(0, unit.size()), unit)) {
        return std::nullopt;
    }
    std::string_view list = field.substr(unit.size());
    const std::string_view range = codec::http::next_list_element(list);
    if (!codec::http::next_list_element(list).empty()) {
        return std::nullopt;
    }
    const std::size_t hyphen = range.find('-');
    if (hyphen == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view first = range.substr(0, hyphen);
    const std::string_view last = range.substr(hyphen + 1);
    if (first.empty()) { // the last bytes
        const std::optional<std::uint64_t> count = number(last);
        if (!count) {
            return std::nullopt;
        }
        const std::uint64_t taken = std::min(*count, size);
        return ByteRange{.begin = size - taken, .size = taken};
    }
    const std::optional<std::uint64_t> begin = number(first);
    const std::optional<std::uint64_t> end = last.empty() ? UINT64_MAX : number(last);
    if (!begin || !end || *end < *begin) {
        return std::nullopt;
    }
    if (*begin >= size) {
        return ByteRange{};
    }
    return ByteRange{.begin = *begin, .size = std::min(*end, size - 1) - *begin + 1};
}

} // namespace penstock::http
