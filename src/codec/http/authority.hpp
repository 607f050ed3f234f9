#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::codec::http {

enum class Port : std::uint8_t { optional, required };

/// Whether the text is a host with an optional port, as in the Host field (RFC 9110, 7.2), in an
/// absolute target, and in that of CONNECT (RFC 9112, 3.2.3): a name or an IPv4 address, or an IPv6
/// address in brackets. The host is not empty (RFC 9110, 4.2.1), and a port is at most 65535.
/// Addresses of future versions (IPvFuture of RFC 3986) are refused: there are none.
[[nodiscard]] bool is_authority(std::string_view text, Port port) noexcept;

} // namespace penstock::codec::http
