#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include <penstock/http/headers.hpp>

namespace penstock::http {

/// The place of the coding that Accept-Encoding prefers (RFC 9110, section 12.5.3), the first of
/// several. Nothing if it prefers none of them, or the body as it is; without the field, the body
/// is sent as it is. An empty name is left out.
[[nodiscard]] std::optional<std::size_t>
negotiate_coding(const Fields& fields, std::span<const std::string_view> codings) noexcept;

/// Tells caches that the response depends on Accept-Encoding (RFC 9110, section 12.5.5).
void append_vary(Headers& headers);

} // namespace penstock::http
