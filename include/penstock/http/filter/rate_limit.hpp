#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>

namespace penstock::http {

struct RateLimitOptions {
    double requests = 10;                 ///< that a client may send
    std::chrono::duration<double> per{1}; ///< in this time, in the long run
    double burst = 20;                    ///< and at once, after a pause
    /// Clients that are remembered. Beyond it, those that have paused for long enough are
    /// forgotten. While there are none, further clients share one allowance.
    std::size_t clients = 65'536;
    /// The clock, for tests.
    std::function<std::chrono::steady_clock::time_point()> clock = &std::chrono::steady_clock::now;
};

/// A filter that answers 429 with Retry-After (RFC 6585, 4) when a client sends more than it may: a
/// token bucket for each IPv4 address and each IPv6 network of 64 bits, which one subscriber has.
///
/// Copies share their state, so several routes count together. Clients without an address (a Unix
/// socket) share one allowance. Behind a proxy the address is the proxy's: limit there.
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
