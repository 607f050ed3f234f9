#pragma once

#include <span>

#include <penstock/codec/http/content_encoder.hpp>
#include <penstock/http/headers.hpp>

namespace penstock::http {

/// The coding that Accept-Encoding prefers (RFC 9110, section 12.5.3), of several the first. Null:
/// none of them, or the body as it is. Without the field that is what is meant to be sent.
[[nodiscard]] const codec::http::ContentCoding*
negotiate_coding(const Fields& fields,
                 std::span<const codec::http::ContentCoding> codings) noexcept;

} // namespace penstock::http
