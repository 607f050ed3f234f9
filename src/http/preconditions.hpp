#pragma once

#include <string_view>

#include <penstock/codec/http/date.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/status.hpp>

namespace penstock::http {

/// What conditional requests are compared with.
struct Validators {
    std::string_view entity_tag; ///< strong, with its quotation marks
    codec::http::Seconds modified = 0;
};

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since (RFC 9110, section
/// 13.2.2). Returns 200 if the request is to be answered, otherwise 412, or 304 for GET and HEAD:
/// other methods would change what the client has seen.
[[nodiscard]] Status check_preconditions(Method method, const Fields& fields,
                                         const Validators& current,
                                         codec::http::Seconds now) noexcept;

/// Whether If-Range allows a part (RFC 9110, section 13.1.5). True without that field.
[[nodiscard]] bool allows_range(const Fields& fields, const Validators& current,
                                codec::http::Seconds now) noexcept;

} // namespace penstock::http
