#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <penstock/http/client_request.hpp>
#include <penstock/http/head.hpp>
#include <penstock/result.hpp>

namespace penstock::http::detail {

/// A URL that was parsed by libcurl.
struct ParsedUrl {
    std::string text{};   ///< absolute, normalised, without a fragment
    std::string shown{};  ///< the same without user name and password
    std::string origin{}; ///< scheme, host and port
};

/// Parses an absolute URL, or one that is relative to `base`. Errors: codes of
/// `ClientError::invalid_url` and `ClientError::unsupported_scheme`.
[[nodiscard]] Result<ParsedUrl> parse_url(const std::string& url, std::string_view method,
                                          const ParsedUrl* base = nullptr);

/// The Location of a response that is to be followed. None for any other response.
[[nodiscard]] std::optional<std::string> redirect_target(const ResponseHead& head);

/// Makes `request` the one that follows a redirect with this status (RFC 9110, section 15.4):
/// method, body and fields. Returns whether it has kept the body.
bool follow(ClientRequest& request, Status status, bool same_origin);

} // namespace penstock::http::detail
