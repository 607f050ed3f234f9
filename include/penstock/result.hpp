#pragma once

#include <cerrno>
#include <expected>
#include <system_error>
#include <type_traits>

namespace penstock {

/// The result of an operation: a value, or an error code. Exceptions are for broken contracts only.
///
/// Codes of the kernel are in `std::system_category()` and compare equal to their `std::errc`: `if
/// (read.error() == std::errc::connection_reset)`. An operation ended by cancellation returns
/// `std::errc::operation_canceled`. One ended by a deadline returns `std::errc::timed_out`.
///
/// The type is `std::expected`. libstdc++ 12 lacks `and_then` and `transform`, so this library does
/// not use them.
template <typename T = void> using Result = std::expected<T, std::error_code>;

/// Whether `T` is a `Result`.
template <typename T> inline constexpr bool is_result = false;
template <typename T> inline constexpr bool is_result<Result<T>> = true;

/// An error for any `Result`: `co_return failure(std::errc::not_connected);`.
[[nodiscard]] inline std::unexpected<std::error_code> failure(std::errc reason) noexcept {
    return std::unexpected(std::error_code(static_cast<int>(reason), std::system_category()));
}

[[nodiscard]] inline std::unexpected<std::error_code> failure(std::error_code reason) noexcept {
    return std::unexpected(reason);
}

/// The error in `errno`.
[[nodiscard]] inline std::unexpected<std::error_code> last_failure() noexcept {
    return std::unexpected(std::error_code(errno, std::system_category()));
}

} // namespace penstock
