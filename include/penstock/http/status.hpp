#pragma once

#include <cstdint>
#include <string_view>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::http {

/// The status of a response (RFC 9110, section 15). Any number from 100 to 999 is one:
/// `Status(299)`.
enum class Status : std::uint16_t {
    continue_ = 100,
    switching_protocols = 101,
    early_hints = 103,
    ok = 200,
    created = 201,
    accepted = 202,
    non_authoritative_information = 203,
    no_content = 204,
    reset_content = 205,
    partial_content = 206,
    multiple_choices = 300,
    moved_permanently = 301,
    found = 302,
    see_other = 303,
    not_modified = 304,
    temporary_redirect = 307,
    permanent_redirect = 308,
    bad_request = 400,
    unauthorized = 401,
    payment_required = 402,
    forbidden = 403,
    not_found = 404,
    method_not_allowed = 405,
    not_acceptable = 406,
    proxy_authentication_required = 407,
    request_timeout = 408,
    conflict = 409,
    gone = 410,
    length_required = 411,
    precondition_failed = 412,
    content_too_large = 413,
    uri_too_long = 414,
    unsupported_media_type = 415,
    range_not_satisfiable = 416,
    expectation_failed = 417,
    misdirected_request = 421,
    unprocessable_content = 422,
    upgrade_required = 426,
    precondition_required = 428,
    too_many_requests = 429,
    request_header_fields_too_large = 431,
    internal_server_error = 500,
    not_implemented = 501,
    bad_gateway = 502,
    service_unavailable = 503,
    gateway_timeout = 504,
    http_version_not_supported = 505,
};

/// The number: `code(Status::ok)` is 200.
[[nodiscard]] constexpr int code(Status status) noexcept {
    return static_cast<int>(status);
}

/// Whether the status is 200 to 299.
[[nodiscard]] constexpr bool is_success(Status status) noexcept {
    return code(status) / 100 == 2;
}

/// Whether the status is 400 to 599: an error of the client or of the server.
[[nodiscard]] constexpr bool is_error(Status status) noexcept {
    return code(status) / 100 == 4 || code(status) / 100 == 5;
}

/// The registered phrase, such as "Not Found". Empty for a status without one.
[[nodiscard]] inline std::string_view reason(Status status) noexcept {
    return codec::http::reason_of(code(status));
}

} // namespace penstock::http
