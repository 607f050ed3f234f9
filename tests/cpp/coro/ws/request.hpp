// The handshake that clients of the tests send.
#pragma once

#include <string>

namespace penstock::testing {

/// With the key of RFC 6455, section 1.3.
inline const std::string request =
    "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"
    "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

} // namespace penstock::testing
