#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

/// The settings of `RateLimit`.
struct RateLimitOptions {
    double requests = 10;                 ///< how many requests a client may send
    std::chrono::duration<double> per{1}; ///< in this time, on average
    double burst = 20;                    ///< how many at once, after a pause
    /// How many clients are remembered. At this number, those that have paused long enough for a
    /// full burst are forgotten. While there are none, further clients share one allowance.
    std::size_t clients = 65'536;
    /// The clock, for tests.
    std::function<std::chrono::steady_clock::time_point()> clock = &std::chrono::steady_clock::now;
};

/// A filter that answers 429 with Retry-After (RFC 6585, section 4) when a client sends more than
/// it may: a token bucket for each IPv4 address and for each IPv6 /64 network, which one subscriber
/// has.
///
/// Copies share their state, so that several routes count together. Clients without an address (of
/// a Unix socket) share one allowance. Behind a proxy all clients have the proxy's address: limit
/// the rate in the proxy.
///
/// Thread safety: none. Make one for each loop.
class RateLimit {
public:
    /// Throws `std::invalid_argument` for a rate or a burst below which no request would pass, and
    /// for 0 clients.
    explicit RateLimit(const RateLimitOptions& options);

    bool operator()(Request& request, Response& response);

    /// The clients that are remembered now.
    [[nodiscard]] std::size_t clients() const noexcept;

private:
    struct State;

    std::shared_ptr<State> state_;
};

} // namespace penstock::http
