#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/http/headers.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// A cookie of a request. Views of the field.
struct Cookie {
    std::string_view name;
    /// As it was sent: neither percent-decoded nor without quotation marks (RFC 6265, 5.4).
    std::string_view value;
};

/// The cookies of all Cookie fields of a request, in their order (RFC 6265, section 4.2.1). None is
/// refused: a text without '=' is the value of a cookie without a name. A name may occur more than
/// once: browsers send the cookie with the longest path first. Another host of the same site can
/// have set any of them, unless the name begins with "__Host-". Throws `std::bad_alloc`.
[[nodiscard]] std::vector<Cookie> cookies(const Fields& fields);

/// The value of the first cookie with this name. Names are case-sensitive. Does not allocate.
[[nodiscard]] std::optional<std::string_view> find_cookie(const Fields& fields,
                                                          std::string_view name) noexcept;

/// Which requests from other sites carry a cookie (RFC 6265bis, 5.6.7).
enum class SameSite : std::uint8_t {
    strict, ///< none
    lax,    ///< links that a user follows; what browsers do if nothing is said
    none,   ///< all; the cookie must be secure
};

/// A cookie for a client to keep, as the Set-Cookie field of a response (RFC 6265, 4.1).
///
///     http::set_cookie(response, {.name = "__Host-session",
///                                 .value = token,
///                                 .path = "/",
///                                 .max_age = std::chrono::hours(24),
///                                 .secure = true,
///                                 .http_only = true,
///                                 .same_site = http::SameSite::lax});
///
/// Browsers keep a cookie for at most 400 days.
struct SetCookie {
    std::string name;     ///< a token
    std::string value;    ///< visible ASCII without quotation mark, comma, semicolon and backslash
    std::string path{};   ///< begins with '/'. Empty: the folder of the request's path
    std::string domain{}; ///< with its subdomains. Empty: only the host itself
    /// Until when the client keeps the cookie. Without this and `max_age`: until its session ends.
    std::optional<std::chrono::sys_seconds> expires{};
    /// How long the client keeps the cookie. Has priority over `expires`. 0 or less removes it.
    std::optional<std::chrono::seconds> max_age{};
    bool secure = false;    ///< only over TLS
    bool http_only = false; ///< hidden from scripts
    std::optional<SameSite> same_site{};
    bool partitioned = false; ///< one for each top-level site (CHIPS); the cookie must be secure

    /// The value of the field. Throws `std::invalid_argument`, with the reason, if a part has a
    /// character that it must not have or is longer than what browsers take (4096 bytes of name and
    /// value, 1024 of a path or domain), if `SameSite::none` or `partitioned` lacks `secure`, and
    /// if the prefix of the name demands more: "__Secure-" `secure`, "__Host-" also the path "/"
    /// and no domain, in any case of letters (RFC 6265bis, 4.1.3). Throws `std::bad_alloc`.
    [[nodiscard]] std::string to_string() const;

    /// A cookie that removes this one from the client: with the same name, path and domain, and
    /// already expired.
    [[nodiscard]] SetCookie removal() const;
};

/// Adds a Set-Cookie field. Throws as `SetCookie::to_string`.
void set_cookie(Headers& headers, const SetCookie& cookie);
/// The same for a response whose head was not sent.
inline void set_cookie(Response& response, const SetCookie& cookie) {
    set_cookie(response.headers(), cookie);
}

} // namespace penstock::http
