#include <penstock/http/filter/rate_limit.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include <netinet/in.h>

#include <penstock/detail/keyed_hash.hpp>

namespace penstock::http {

namespace {

using Clock = std::chrono::steady_clock;

/// Of an IPv6 address its network, and then zeros. Of an IPv4 one, in the form that IPv6 has for it
/// (RFC 4291, 2.5.5.2), all of it. Zeros for no address.
using Client = std::array<unsigned char, 16>;

Client client_of(const Request& request) {
    Client client{};
    const Result<net::Endpoint> peer = request.peer_endpoint();
    if (!peer) {
        return client;
    }
    constexpr std::array<unsigned char, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (!peer->is_v6()) {
        sockaddr_in v4{};
        std::memcpy(&v4, peer->native(), sizeof v4);
        std::ranges::copy(mapped, client.begin());
        std::memcpy(client.data() + mapped.size(), &v4.sin_addr, sizeof v4.sin_addr);
        return client;
    }
    sockaddr_in6 v6{};
    std::memcpy(&v6, peer->native(), sizeof v6);
    std::memcpy(client.data(), &v6.sin6_addr, client.size());
    if (!std::equal(mapped.begin(), mapped.end(), client.begin())) {
        std::fill(client.begin() + 8, client.end(), 0);
    }
    return client;
}

struct HashOfClient {
    std::size_t operator()(const Client& client) const noexcept {
        return penstock::detail::KeyedHash()(
            {reinterpret_cast<const char*>(client.data()), client.size()});
    }
};

struct Bucket {
    double tokens;
    Clock::time_point filled_at;
};

} // namespace

struct RateLimit::State {
    explicit State(const RateLimitOptions& wanted)
        : options(wanted), rate(wanted.requests / wanted.per.count()) {}

    /// The bucket of a client, filled by the time that has passed.
    Bucket& bucket_of(const Client& client, Clock::time_point now) {
        auto found = buckets.find(client);
        if (found == buckets.end()) {
            if (buckets.size() >= options.clients && !forget_idle(now)) {
                found = buckets.try_emplace(Client{}, Bucket{options.burst, now}).first;
            } else {
                found = buckets.try_emplace(client, Bucket{options.burst, now}).first;
            }
        }
        Bucket& bucket = found->second;
        bucket.tokens = tokens_at(bucket, now);
        bucket.filled_at = now;
        return bucket;
    }

    [[nodiscard]] double tokens_at(const Bucket& bucket, Clock::time_point now) const noexcept {
        const std::chrono::duration<double> passed = now - bucket.filled_at;
        return std::min(options.burst, bucket.tokens + std::max(0.0, passed.count()) * rate);
    }

    /// Whether there is room now. Looks at all clients, so at most once a second.
    bool forget_idle(Clock::time_point now) {
        if (now < next_look) {
            return false;
        }
        next_look = now + std::chrono::seconds(1);
        std::erase_if(buckets, [&](const auto& each) {
            return tokens_at(each.second, now) >= options.burst;
        });
        return buckets.size() < options.clients;
    }

    RateLimitOptions options;
    double rate; ///< tokens a second
    std::unordered_map<Client, Bucket, HashOfClient> buckets;
    Clock::time_point next_look{};
};

RateLimit::RateLimit(const RateLimitOptions& options) {
    if (!(options.requests > 0) || !(options.per.count() > 0) || !(options.burst >= 1)) {
        throw std::invalid_argument("RateLimit: requests " + std::to_string(options.requests) +
                                    " in " + std::to_string(options.per.count()) +
                                    " s with a burst of " + std::to_string(options.burst) +
                                    " let nothing pass; the burst is at least 1");
    }
    if (options.clients == 0) {
        throw std::invalid_argument("RateLimit: no client is remembered; clients is at least 1");
    }
    state_ = std::make_shared<State>(options);
}

bool RateLimit::operator()(Request& request, Response& response) {
    State& state = *state_;
    Bucket& bucket = state.bucket_of(client_of(request), state.options.clock());
    if (bucket.tokens >= 1) {
        bucket.tokens -= 1;
        return true;
    }
    const double seconds = std::ceil((1 - bucket.tokens) / state.rate);
    response.refuse(Status::too_many_requests);
    response.header("Retry-After",
                    std::to_string(static_cast<std::uint64_t>(std::clamp(seconds, 1.0, 1e9))));
    return false;
}

std::size_t RateLimit::clients() const noexcept {
    return state_->buckets.size();
}

} // namespace penstock::http
