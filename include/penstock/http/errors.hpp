#pragma once

#include <system_error>

#include <penstock/codec/http/error.hpp>

namespace penstock::http {

/// Errors of an HTTP exchange that neither the kernel nor the parser has a number for.
enum class Error {
    body_too_large = 1, ///< a body is larger than the limit
    truncated,          ///< the connection ended inside a message
    response_sent,      ///< the response is complete, or must not have a body
    wrong_length,       ///< a body is longer or shorter than its announced length
    not_an_upgrade,     ///< the connection can only be taken over by an upgrade's handler
};

/// The category of `Error`. Its name is "penstock.http".
[[nodiscard]] const std::error_category& error_category() noexcept;

/// The category of messages that are refused: the codes of `codec::http::Error`. Its name is
/// "penstock.http.message".
[[nodiscard]] const std::error_category& message_category() noexcept;

/// Makes `result.error() == http::Error::body_too_large` work.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), error_category()};
}

/// Why a message is refused (RFC 9112).
using MessageError = codec::http::Error;

} // namespace penstock::http

namespace penstock::codec::http {

/// Makes `result.error() == http::MessageError::invalid_chunk_size` work.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), penstock::http::message_category()};
}

} // namespace penstock::codec::http

template <> struct std::is_error_code_enum<penstock::http::Error> : std::true_type {};
template <> struct std::is_error_code_enum<penstock::codec::http::Error> : std::true_type {};
