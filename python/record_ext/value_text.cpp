#include "value_text.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string_view>

namespace penstock::python::record {

namespace {

constexpr std::int64_t nanoseconds = 1'000'000'000;

/// Writes `value` with exactly `digits` digits.
void put_padded(char* out, std::uint64_t value, int digits) noexcept {
    for (int i = digits - 1; i >= 0; --i) {
        out[i] = static_cast<char>('0' + value % 10);
        value /= 10;
    }
}

/// Writes a number that is a count of millionths, which most readings are: 15 digits at most tell
/// a float64 from all others, so such a decimal is the shortest one. Null where it is not.
char* put_millionths(char* out, double size, bool point) noexcept {
    constexpr double largest = 1e9;
    if (!(size >= 1e-4 && size < largest)) {
        return nullptr;
    }
    const auto count = static_cast<std::uint64_t>(std::llround(size * 1e6));
    if (static_cast<double>(count) / 1e6 != size) {
        return nullptr;
    }
    const std::uint64_t before = count / 1'000'000;
    std::uint64_t behind = count % 1'000'000;
    out = std::to_chars(out, out + longest_whole, before).ptr;
    if (behind == 0) {
        return point ? put_text(out, ".0") : out;
    }
    int digits = 6;
    while (behind % 10 == 0) {
        behind /= 10;
        --digits;
    }
    *out++ = '.';
    put_padded(out, behind, digits);
    return out + digits;
}

} // namespace

char* put_number(char* out, double value, bool point) noexcept {
    if (!std::isfinite(value)) {
        return put_text(out, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
    if (std::signbit(value)) {
        *out++ = '-';
        value = -value;
    }
    if (value == 0) {
        return put_text(out, point ? "0.0" : "0");
    }
    if (char* end = put_millionths(out, value, point)) {
        return end;
    }
    // d.ddde+XX, with the fewest digits that read back as the same value.
    std::array<char, 32> digits; // NOLINT(*-member-init): filled below
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                          std::chars_format::scientific)
                                .ptr;
    const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
    const std::size_t mark = text.find('e');
    int exponent = 0;
    const char* number = text.data() + mark + 1;
    std::from_chars(*number == '+' ? number + 1 : number, end, exponent);
    // As CPython's format_float_short for 'r' (Python/pystrtod.c).
    if (exponent < -4 || exponent >= 16) {
        return put_text(out, text);
    }
    const char first = text.front();
    const std::string_view rest = mark > 1 ? text.substr(2, mark - 2) : std::string_view();
    if (exponent < 0) {
        out = put_text(
            out, std::string_view("0.0000").substr(0, 1 + static_cast<std::size_t>(-exponent)));
        *out++ = first;
        return put_text(out, rest);
    }
    const auto before = static_cast<std::size_t>(exponent);
    *out++ = first;
    if (rest.size() > before) {
        out = put_text(out, rest.substr(0, before));
        *out++ = '.';
        return put_text(out, rest.substr(before));
    }
    out = put_text(out, rest);
    std::memset(out, '0', before - rest.size());
    out += before - rest.size();
    return point ? put_text(out, ".0") : out;
}

char* put_whole(char* out, std::int64_t value) noexcept {
    return std::to_chars(out, out + longest_whole, value).ptr;
}

char* StampText::put(char* out, std::int64_t stamp) noexcept {
    std::int64_t second = stamp / nanoseconds;
    std::int64_t rest = stamp % nanoseconds;
    if (rest < 0) {
        second -= 1;
        rest += nanoseconds;
    }
    if (second != second_) {
        using namespace std::chrono;
        const sys_seconds moment{seconds{second}};
        const auto day = floor<days>(moment);
        const year_month_day date(day);
        const hh_mm_ss time(moment - day);
        put_padded(text_.data(), static_cast<std::uint64_t>(static_cast<int>(date.year())), 4);
        text_[4] = '-';
        put_padded(text_.data() + 5, static_cast<unsigned>(date.month()), 2);
        text_[7] = '-';
        put_padded(text_.data() + 8, static_cast<unsigned>(date.day()), 2);
        text_[10] = 'T';
        put_padded(text_.data() + 11, static_cast<std::uint64_t>(time.hours().count()), 2);
        text_[13] = ':';
        put_padded(text_.data() + 14, static_cast<std::uint64_t>(time.minutes().count()), 2);
        text_[16] = ':';
        put_padded(text_.data() + 17, static_cast<std::uint64_t>(time.seconds().count()), 2);
        text_[19] = '.';
        second_ = second;
    }
    std::memcpy(out, text_.data(), text_.size());
    put_padded(out + text_.size(), static_cast<std::uint64_t>(rest), 9);
    out[29] = 'Z';
    return out + longest_stamp;
}

} // namespace penstock::python::record
