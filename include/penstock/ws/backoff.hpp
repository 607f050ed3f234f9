#pragma once

#include <algorithm>
#include <chrono>

namespace penstock::ws {

/// The delays between attempts to connect: exponential back-off with full jitter. Each delay is a
/// random part of a bound that doubles with every attempt, so that the clients of a server that was
/// restarted do not come back all at once (RFC 6455, section 7.2.3).
class Backoff {
public:
    /// The bound is `first` at the beginning, and never more than `longest`.
    Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest) noexcept
        : first_(std::min(first, longest)), longest_(longest), bound_(first_) {}

    /// The next delay: `part` of the bound. `part` is a random number from 0 to 1.
    [[nodiscard]] std::chrono::milliseconds next(double part) noexcept {
        const auto delay = std::chrono::duration_cast<std::chrono::milliseconds>(bound_ * part);
        bound_ = bound_ > longest_ / 2 ? longest_ : bound_ * 2;
        return delay;
    }

    /// Starts again with `first`, after a connection that has lasted.
    void reset() noexcept { bound_ = first_; }

private:
    std::chrono::milliseconds first_;
    std::chrono::milliseconds longest_;
    std::chrono::milliseconds bound_;
};

} // namespace penstock::ws
