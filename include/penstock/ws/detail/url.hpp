#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/result.hpp>

namespace penstock::ws::detail {

/// The parts of a WebSocket URL (RFC 6455, section 3; RFC 3986).
struct Url {
    bool secure = false;
    std::string host; ///< to resolve: an IPv6 address without brackets
    std::uint16_t port = 0;
    std::string authority; ///< for the Host field: without the default port
    std::string target;    ///< path and query
};

/// Errors: `invalid_argument` for anything but ws and wss URLs, for a user name, and for a
/// fragment, which RFC 6455 forbids. Throws `std::bad_alloc`.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

/// An HTTP proxy, by its URL.
struct Proxy {
    bool secure = false;
    std::string host;
    std::uint16_t port = 0;
    std::string credentials; ///< "user:password", decoded; empty if there are none
};

/// Errors: `invalid_argument` for anything but "http://[user:password@]host[:port][/]" and the same
/// with "https". The port is 80 or 443 by default. Throws `std::bad_alloc`.
[[nodiscard]] Result<Proxy> parse_proxy(std::string_view text);

} // namespace penstock::ws::detail
