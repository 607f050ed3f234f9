#include <penstock/ws/detail/taken_over.hpp>

#include <utility>

#include <penstock/http/upgrade.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::ws::detail {

TakenOver take_over(http::Upgrade& upgrade) {
    const Bytes head(upgrade.head_text());
    http::Upgrade::Taken taken = upgrade.take();
    // The handshake parses the head itself, with the limits of a WebSocket.
    taken.surplus.insert(taken.surplus.begin(), head.begin(), head.end());
    return {.stream = std::move(taken.stream), .received = std::move(taken.surplus)};
}

} // namespace penstock::ws::detail
