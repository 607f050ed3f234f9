#pragma once

#include <system_error>

namespace penstock {

/// Errors for which the kernel has no number.
enum class Error {
    end_of_stream = 1, ///< the stream ended before the requested bytes arrived
    channel_closed,    ///< the channel accepts no more values, or has no more
    broken_promise,    ///< the promise was destroyed without a result
};

/// The category of `Error`. Its name is "penstock".
[[nodiscard]] const std::error_category& error_category() noexcept;

/// Makes `result.error() == Error::end_of_stream` work.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), error_category()};
}

} // namespace penstock

template <> struct std::is_error_code_enum<penstock::Error> : std::true_type {};
