#pragma once

#include <cstdint>
#include <system_error>

namespace penstock::http {

/// Why a request of a `Client` has failed.
///
/// The error code of a failed request compares equal to one of these conditions. Its message names
/// the request's URL, the cause and a remedy:
///
///     const auto page = co_await client.get("https://example.org/");
///     if (!page && page.error() == http::ClientError::name_not_resolved) ...
///     std::puts(page.error().message().c_str());
///
/// Some conditions also compare equal to a `std::errc`, which is given below.
enum class ClientError : std::uint8_t {
    invalid_url = 1,      ///< the URL cannot be parsed, or has no host; `invalid_argument`
    unsupported_scheme,   ///< neither http nor https; `protocol_not_supported`
    invalid_request,      ///< a field or method that a request must not set; `invalid_argument`
    unusable_certificate, ///< a file of `ClientTls` is missing, or is not PEM; `invalid_argument`
    name_not_resolved,    ///< no address for the server's or proxy's name; `host_unreachable`
    connection_refused,   ///< no server listens there; `connection_refused`
    connection_failed,    ///< the server cannot be reached; `host_unreachable`
    connection_lost,      ///< the connection ended before the response; `connection_reset`
    truncated,            ///< the connection ended within the response; `connection_reset`
    timed_out,            ///< one of `ClientTimeouts` has expired; `timed_out`
    tls_failed,           ///< the TLS handshake has failed
    certificate_refused,  ///< the server's certificate is not trusted, or names another host
    proxy_failed,         ///< the proxy refused to connect to the server
    too_many_redirects,   ///< more than the limit
    body_not_repeatable,  ///< the request's body would have to be sent again, and cannot be
    wrong_length,         ///< the request's body is longer or shorter than announced
    body_too_large,       ///< the response's body is larger than the limit; `message_size`
    invalid_response,     ///< the server violates HTTP; `protocol_error`
    undecodable_body,     ///< the response's compression is damaged; `illegal_byte_sequence`
    not_enough_memory,    ///< `not_enough_memory`
    failed,               ///< anything else; the message has libcurl's text
};

/// The category of failed requests. Its name is "penstock.http.client". The texts of the last 256
/// failures of the process are kept. The message of an older code lacks the URL and the details.
///
/// Thread safety: any thread may ask for a message.
[[nodiscard]] const std::error_category& client_error_category() noexcept;

/// Makes `result.error() == http::ClientError::timed_out` work.
[[nodiscard]] inline std::error_condition make_error_condition(ClientError error) noexcept {
    return {static_cast<int>(error), client_error_category()};
}

} // namespace penstock::http

template <> struct std::is_error_condition_enum<penstock::http::ClientError> : std::true_type {};
