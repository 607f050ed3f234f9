#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include <curl/curl.h>

#include <penstock/http/client_errors.hpp>

namespace penstock::http::detail {

/// An error code whose message is "`request`: cause; remedy (details)". `request` is the method and
/// the URL. The details may be empty.
[[nodiscard]] std::error_code failed_request(ClientError error, std::string_view request,
                                             std::string_view details) noexcept;

/// What libcurl knows about the end of a transfer.
struct CurlOutcome {
    CURLcode code = CURLE_OK;
    long os_error = 0;     ///< errno of connect(2)
    long proxy_status = 0; ///< of a proxy's answer to CONNECT
};

[[nodiscard]] ClientError error_of(const CurlOutcome& outcome) noexcept;

} // namespace penstock::http::detail
