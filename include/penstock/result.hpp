#pragma once

#include <cerrno>
#include <expected>
#include <system_error>
#include <type_traits>

namespace penstock {

/// What an operation returns: its value, or the reason why there is none. Errors are values here;
/// exceptions are for broken contracts only.
///
/// Codes of the kernel are in `std::system_category()` and compare equal to their `std::errc`:
/// `if (read.error() == std::errc::connection_reset)`. An operation that its task's cancellation
/// ended yields `std::errc::operation_canceled`; one that a deadline ended, `std::errc::timed_out`.
///
/// This is `std::expected` as both standard libraries have it; libstdc++ 12 lacks its `and_then` and
/// `transform`, so this library does not use them.
template <typename T = void> using Result = std::expected<T, std::error_code>;

template <typename T> inline constexpr bool is_result = false;
template <typename T> inline constexpr bool is_result<Result<T>> = true;

/// `co_return failure(std::errc::not_connected);`
[[nodiscard]] inline std::unexpected<std::error_code> failure(std::errc reason) noexcept {
    return std::unexpected(std::error_code(static_cast<int>(reason), std::system_category()));
}

[[nodiscard]] inline std::unexpected<std::error_code> failure(std::error_code reason) noexcept {
    return std::unexpected(reason);
}

/// The failure that `errno` tells of.
[[nodiscard]] inline std::unexpected<std::error_code> last_failure() noexcept {
    return std::unexpected(std::error_code(errno, std::system_category()));
}

} // namespace penstock
