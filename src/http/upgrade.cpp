#include <penstock/http/upgrade.hpp>

#include <algorithm>
#include <cstring>

#include "http/server_exchange.hpp"

namespace penstock::http {

std::unique_ptr<penstock::detail::Seat> detail::leave(Upgrade& upgrade) {
    return upgrade.exchange_.leave();
}

penstock::detail::AcceptLoop& detail::accept_loop_of(const Upgrade& upgrade) noexcept {
    return upgrade.exchange_.accept_loop();
}

Upgrade::Upgrade(detail::ServerExchange& exchange, const Request& request) noexcept
    : exchange_(exchange), request_(request), stream_(exchange.upgraded_stream()) {}

std::string_view Upgrade::head_text() const noexcept {
    return exchange_.head_text();
}

Bytes Upgrade::surplus() const noexcept {
    return Bytes(exchange_.surplus());
}

Upgrade::Taken Upgrade::take() {
    const Bytes surplus = this->surplus();
    Taken taken{.stream = {}, .surplus = {surplus.begin(), surplus.end()}};
    exchange_.use_surplus(surplus.size());
    taken.stream = exchange_.take_stream();
    return taken;
}

Task<Result<std::size_t>> Upgrade::read(MutableBytes into) {
    const Bytes surplus = this->surplus();
    if (surplus.empty()) {
        co_return co_await stream_.read(into);
    }
    const std::size_t size = std::min(into.size(), surplus.size());
    if (size > 0) { // a view of nothing may have no address
        std::memcpy(into.data(), surplus.data(), size);
    }
    exchange_.use_surplus(size);
    co_return size;
}

sync::Event& Upgrade::stopping() const noexcept {
    return exchange_.stopping();
}

} // namespace penstock::http
