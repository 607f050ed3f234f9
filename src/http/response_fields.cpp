#include "http/response_fields.hpp"

#include <algorithm>
#include <array>

#include <time.h>

#include <penstock/codec/http/date.hpp>
#include <penstock/codec/http/fields.hpp>

namespace penstock::http::detail {

FieldKind kind_of(std::string_view name) noexcept {
    using codec::http::equal_ignoring_case;
    switch (name.size()) {
    case 4:
        return equal_ignoring_case(name, "Date") ? FieldKind::date : FieldKind::other;
    case 10:
        if (equal_ignoring_case(name, "Connection")) {
            return FieldKind::connection;
        }
        return equal_ignoring_case(name, "Keep-Alive") ? FieldKind::of_the_server
                                                       : FieldKind::other;
    case 14:
        return equal_ignoring_case(name, "Content-Length") ? FieldKind::of_the_server
                                                           : FieldKind::other;
    case 17:
        return equal_ignoring_case(name, "Transfer-Encoding") ? FieldKind::of_the_server
                                                              : FieldKind::other;
    default:
        return FieldKind::other;
    }
}

/// The line is made once a second.
std::string_view date_line() noexcept {
    struct Line {
        codec::http::Seconds second = -1;
        std::array<char, 37> text{'D', 'a', 't', 'e', ':', ' '};
    };
    static constinit thread_local Line line;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != line.second) {
        line.second = now.tv_sec;
        const codec::http::DateText date(now.tv_sec);
        std::ranges::copy(date.text(), line.text.begin() + 6);
        line.text[35] = '\r';
        line.text[36] = '\n';
    }
    return {line.text.data(), line.text.size()};
}

} // namespace penstock::http::detail
