#pragma once

#include <system_error>

namespace penstock::tls {

/// Errors of an encrypted connection that OpenSSL has no number for.
enum class Error {
    truncated = 1,       ///< the connection ended without close_notify (RFC 8446, section 6.1)
    broken,              ///< an earlier write failed or was cancelled, perhaps inside a record
    no_certificate_name, ///< verification is on, but `server_name` is empty
};

/// The category of `Error`. Its name is "penstock.tls".
[[nodiscard]] const std::error_category& error_category() noexcept;

/// The category of OpenSSL's own errors, such as a handshake that fails: the packed code of
/// ERR_get_error(3). Its name is "openssl".
[[nodiscard]] const std::error_category& openssl_category() noexcept;

/// The category of refused certificates: the codes of X509_verify_cert_error_string(3), such as
/// X509_V_ERR_CERT_HAS_EXPIRED. Its name is "x509".
[[nodiscard]] const std::error_category& certificate_category() noexcept;

/// Makes `result.error() == tls::Error::truncated` work.
[[nodiscard]] inline std::error_code make_error_code(Error error) noexcept {
    return {static_cast<int>(error), error_category()};
}

} // namespace penstock::tls

template <> struct std::is_error_code_enum<penstock::tls::Error> : std::true_type {};
