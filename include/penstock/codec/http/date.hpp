#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock::codec::http {

/// Seconds since 1970-01-01T00:00:00Z, without leap seconds.
using Seconds = std::int64_t;

/// A time as Date, Last-Modified and the like have it (RFC 9110, section 5.6.7): "Sun, 06 Nov 1994
/// 08:49:37 GMT". Times before the year 1 or after 9999 become the nearest one that is not.
class DateText {
public:
    explicit DateText(Seconds time) noexcept;
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_.size()}; }

private:
    std::array<char, 29> text_{};
};

/// Parses a time in any of the three forms that a recipient must accept: the one above, "Sunday,
/// 06-Nov-94 08:49:37 GMT" and "Sun Nov  6 08:49:37 1994". A year of two digits means the last one
/// that is at most 50 years after `now`. Empty for any other text, and for dates that do not exist.
/// The day of the week is not compared.
[[nodiscard]] std::optional<Seconds> parse_date(std::string_view text, Seconds now) noexcept;

} // namespace penstock::codec::http
