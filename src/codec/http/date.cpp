#include <penstock/codec/http/date.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace penstock::codec::http {

namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 7> day_names{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 7> long_day_names{
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> month_names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

constexpr Seconds seconds_of_day = 86'400;
constexpr Seconds first_time = -62'135'596'800; ///< 0001-01-01
constexpr Seconds last_time = 253'402'300'799;  ///< 9999-12-31 23:59:59

struct Date {
    int year = 0;
    int month = 0; ///< 1 to 12
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
};

/// Reads a text from its front. After a mismatch it stays failed.
class Cursor {
public:
    explicit Cursor(std::string_view text) noexcept : text_(text) {}

    void literal(std::string_view expected) noexcept {
        if (text_.starts_with(expected)) {
            text_.remove_prefix(expected.size());
        } else {
            failed_ = true;
        }
    }

    [[nodiscard]] int number(std::size_t digits) noexcept {
        int value = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            if (text_.empty() || text_.front() < '0' || text_.front() > '9') {
                failed_ = true;
                return 0;
            }
            value = value * 10 + (text_.front() - '0');
            text_.remove_prefix(1);
        }
        return value;
    }

    /// The position of the name with which the text goes on.
    template <std::size_t Count>
    [[nodiscard]] int name(const std::array<std::string_view, Count>& names) noexcept {
        for (std::size_t i = 0; i < Count; ++i) {
            if (text_.starts_with(names[i])) {
                text_.remove_prefix(names[i].size());
                return static_cast<int>(i);
            }
        }
        failed_ = true;
        return 0;
    }

    void time(Date& date) noexcept {
        date.hour = number(2);
        literal(":");
        date.minute = number(2);
        literal(":");
        date.second = number(2);
    }

    [[nodiscard]] bool skip(char c) noexcept {
        const bool found = text_.starts_with(c);
        if (found) {
            text_.remove_prefix(1);
        }
        return found;
    }

    [[nodiscard]] bool complete() const noexcept { return !failed_ && text_.empty(); }

private:
    std::string_view text_;
    bool failed_ = false;
};

std::optional<Seconds> seconds_of(const Date& date) noexcept {
    const year_month_day day{std::chrono::year(date.year),
                             std::chrono::month(static_cast<unsigned>(date.month)),
                             std::chrono::day(static_cast<unsigned>(date.day))};
    // A leap second is allowed (RFC 9110, section 5.6.7) and is the next second here.
    if (!day.ok() || date.hour > 23 || date.minute > 59 || date.second > 60) {
        return std::nullopt;
    }
    return sys_days(day).time_since_epoch().count() * seconds_of_day + Seconds{date.hour} * 3'600 +
           Seconds{date.minute} * 60 + date.second;
}

int year_of(Seconds time) noexcept {
    const auto day = std::chrono::floor<days>(std::chrono::sys_seconds(std::chrono::seconds(time)));
    return static_cast<int>(year_month_day(day).year());
}

/// "06 Nov 1994 08:49:37 GMT", after the day of the week.
std::optional<Seconds> parse_usual(std::string_view text) noexcept {
    Cursor cursor(text);
    Date date;
    (void)cursor.name(day_names);
    cursor.literal(", ");
    date.day = cursor.number(2);
    cursor.literal(" ");
    date.month = cursor.name(month_names) + 1;
    cursor.literal(" ");
    date.year = cursor.number(4);
    cursor.literal(" ");
    cursor.time(date);
    cursor.literal(" GMT");
    return cursor.complete() ? seconds_of(date) : std::nullopt;
}

/// "Sunday, 06-Nov-94 08:49:37 GMT" (RFC 850).
std::optional<Seconds> parse_with_short_year(std::string_view text, Seconds now) noexcept {
    Cursor cursor(text);
    Date date;
    (void)cursor.name(long_day_names);
    cursor.literal(", ");
    date.day = cursor.number(2);
    cursor.literal("-");
    date.month = cursor.name(month_names) + 1;
    cursor.literal("-");
    date.year = cursor.number(2);
    cursor.literal(" ");
    cursor.time(date);
    cursor.literal(" GMT");
    if (!cursor.complete()) {
        return std::nullopt;
    }
    const int latest = year_of(std::clamp(now, first_time, last_time)) + 50;
    date.year += latest - latest % 100;
    if (date.year > latest) {
        date.year -= 100;
    }
    return seconds_of(date);
}

/// "Sun Nov  6 08:49:37 1994", as asctime(3) writes it.
std::optional<Seconds> parse_of_asctime(std::string_view text) noexcept {
    Cursor cursor(text);
    Date date;
    (void)cursor.name(day_names);
    cursor.literal(" ");
    date.month = cursor.name(month_names) + 1;
    cursor.literal(" ");
    date.day = cursor.skip(' ') ? cursor.number(1) : cursor.number(2);
    cursor.literal(" ");
    cursor.time(date);
    cursor.literal(" ");
    date.year = cursor.number(4);
    return cursor.complete() ? seconds_of(date) : std::nullopt;
}

void put_number(char* at, int value, int digits) noexcept {
    for (int i = digits - 1; i >= 0; --i) {
        at[i] = static_cast<char>('0' + value % 10);
        value /= 10;
    }
}

} // namespace

DateText::DateText(Seconds time) noexcept {
    time = std::clamp(time, first_time, last_time);
    const std::chrono::sys_seconds point{std::chrono::seconds(time)};
    const sys_days day = std::chrono::floor<days>(point);
    const year_month_day date(day);
    const auto seconds = static_cast<int>((point - day).count());
    constexpr std::string_view form = "Sun, 00 Jan 0000 00:00:00 GMT";
    std::ranges::copy(form, text_.begin());
    std::ranges::copy(day_names[std::chrono::weekday(day).c_encoding()], text_.begin());
    put_number(text_.data() + 5, static_cast<int>(static_cast<unsigned>(date.day())), 2);
    std::ranges::copy(month_names[static_cast<unsigned>(date.month()) - 1], text_.begin() + 8);
    put_number(text_.data() + 12, static_cast<int>(date.year()), 4);
    put_number(text_.data() + 17, seconds / 3'600, 2);
    put_number(text_.data() + 20, seconds / 60 % 60, 2);
    put_number(text_.data() + 23, seconds % 60, 2);
}

std::optional<Seconds> parse_date(std::string_view text, Seconds now) noexcept {
    if (const auto time = parse_usual(text)) {
        return time;
    }
    if (const auto time = parse_with_short_year(text, now)) {
        return time;
    }
    return parse_of_asctime(text);
}

} // namespace penstock::codec::http
