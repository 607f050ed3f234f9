#pragma once

#include <optional>
#include <string_view>

#include <penstock/codec/http/date.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/status.hpp>

namespace penstock::http {

/// What tells one state of a resource from another (RFC 9110, section 8.8).
struct Validators {
    /// With its quotation marks, and W/ in front if it is weak. Empty: the resource has none.
    std::string_view entity_tag{};
    /// Nothing: not known.
    std::optional<codec::http::Seconds> modified{};
};

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since (RFC 9110, section
/// 13.2.2) for a resource that exists. Returns 200 if the request is to be answered, otherwise 412,
/// or 304 for GET and HEAD: other methods would change what the client has seen. A PUT or DELETE
/// must ask before it takes effect. `now` is the time of the year in two digits that old dates
/// have.
[[nodiscard]] Status check_preconditions(Method method, const Fields& fields,
                                         const Validators& current,
                                         codec::http::Seconds now) noexcept;

/// Whether If-Range allows a part (RFC 9110, section 13.1.5). True without that field. Never with a
/// weak entity tag.
[[nodiscard]] bool allows_range(const Fields& fields, const Validators& current,
                                codec::http::Seconds now) noexcept;

} // namespace penstock::http
