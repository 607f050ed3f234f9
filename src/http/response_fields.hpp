#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::http::detail {

/// What a field of a handler's response means to the server. Those `of_the_server` are not sent.
enum class FieldKind : std::uint8_t { other, connection, date, of_the_server };

[[nodiscard]] FieldKind kind_of(std::string_view name) noexcept;

/// The Date field of now, with its end of line. Valid until the next call of the thread.
[[nodiscard]] std::string_view date_line() noexcept;

/// The value in it.
[[nodiscard]] inline std::string_view date_text() noexcept {
    return date_line().substr(6, 29);
}

} // namespace penstock::http::detail
