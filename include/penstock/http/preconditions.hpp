#pragma once

#include <optional>
#include <string_view>

#include <penstock/codec/http/date.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/method.hpp>
#include <penstock/http/status.hpp>

namespace penstock::http {

/// The validators of a resource: they tell one state of it from another (RFC 9110, section 8.8).
struct Validators {
    /// The ETag with its quotation marks, and W/ in front if it is weak. Empty: there is none.
    std::string_view entity_tag{};
    /// When the resource was last changed. Empty: not known.
    std::optional<codec::http::Seconds> modified{};
};

/// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since (RFC 9110, section
/// 13.2.2) for a resource that exists. Returns 200 if the method is to be performed, 304 for a GET
/// or HEAD whose client has the current state, otherwise 412. Call it before a PUT or DELETE takes
/// effect. `now` resolves the two-digit year of an RFC 850 date (RFC 9110, section 5.6.7).
[[nodiscard]] Status check_preconditions(Method method, const Fields& fields,
                                         const Validators& current,
                                         codec::http::Seconds now) noexcept;

/// Whether If-Range allows a part (RFC 9110, section 13.1.5). True without that field, false for a
/// weak entity tag.
[[nodiscard]] bool allows_range(const Fields& fields, const Validators& current,
                                codec::http::Seconds now) noexcept;

} // namespace penstock::http
