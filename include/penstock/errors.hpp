#pragma once

#include <system_error>

namespace penstock {

/// Reasons that the kernel has no number for.
enum class Error {
    end_of_stream = 1, ///< the other end finished in the middle of what was to be read
    channel_closed,    ///< nothing more can be sent, or nothing more will come
};

/// Named "penstock".
[[nodiscard]] const std::error_category& error_category() noexcept;

/// Found by `std::error_code`: `result.error() == Error::end_of_stream`.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), error_category()};
}

} // namespace penstock

template <> struct std::is_error_code_enum<penstock::Error> : std::true_type {};
