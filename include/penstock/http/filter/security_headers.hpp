#pragma once

#include <string>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// A filter that adds the fields by which browsers protect a site, to responses and to failures. An
/// empty value: the field is not sent. The handler may replace each field.
struct SecurityHeaders {
    std::string content_type_options = "nosniff"; ///< X-Content-Type-Options
    std::string frame_options = "DENY";           ///< X-Frame-Options (RFC 7034)
    std::string referrer_policy = "no-referrer";  ///< Referrer-Policy
    std::string content_security_policy{};        ///< such as "default-src 'self'"
    std::string strict_transport_security{};      ///< "max-age=31536000", behind TLS (RFC 6797)
    std::string cross_origin_opener_policy = "same-origin";

    /// Throws `std::invalid_argument` for a value that no field can have.
    bool operator()(Request& request, Response& response) const;
};

} // namespace penstock::http
