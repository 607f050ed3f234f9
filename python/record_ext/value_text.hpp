#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::python::record {

/// The longest texts of values, in bytes.
inline constexpr std::size_t longest_number = 26; // -1.2345678901234567e-308 and more
inline constexpr std::size_t longest_whole = 20;
inline constexpr std::size_t longest_stamp = 30;

/// Writes `text`, which may be empty, and returns the end.
inline char* put_text(char* out, std::string_view text) noexcept {
    return std::copy(text.begin(), text.end(), out);
}

/// Writes `value` in the notation of Python's repr(), the shortest decimal that reads back as the
/// same float64, and returns the end. `point`: whole numbers end with ".0". NaN and infinities are
/// `nan`, `inf` and `-inf`.
char* put_number(char* out, double value, bool point) noexcept;

/// Writes a whole number and returns the end.
char* put_whole(char* out, std::int64_t value) noexcept;

/// Writes time stamps as ISO 8601 with nine decimals and `Z`. Keeps the text of the last second:
/// successive stamps mostly share it.
class StampText {
public:
    /// Writes nanoseconds since 1970 UTC and returns the end.
    char* put(char* out, std::int64_t stamp) noexcept;

private:
    std::int64_t second_ = INT64_MIN;
    std::array<char, 20> text_{}; ///< 2026-11-21T12:00:00.
};

} // namespace penstock::python::record
