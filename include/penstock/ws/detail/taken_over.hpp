#pragma once

#include <cstddef>
#include <vector>

#include <penstock/stream/any_stream.hpp>

namespace penstock::http {
class Upgrade;
}

namespace penstock::ws::detail {

/// The connection of an HTTP server's client that wants a WebSocket.
struct TakenOver {
    AnyStream stream;
    std::vector<std::byte> received; ///< the head of the request, and what came after it
};

/// Throws `std::bad_alloc`.
[[nodiscard]] TakenOver take_over(http::Upgrade& upgrade);

} // namespace penstock::ws::detail
