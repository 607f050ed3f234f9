#pragma once

#include <chrono>

#include <penstock/io/timer_queue.hpp>

namespace penstock::detail {

/// In nanoseconds, rounded up: nothing ends before its time. What does not fit is for ever, what is
/// negative is nothing.
template <typename Rep, typename Period>
[[nodiscard]] constexpr io::MonotonicTime
nanoseconds_of(std::chrono::duration<Rep, Period> duration) noexcept {
    constexpr std::chrono::nanoseconds most = std::chrono::nanoseconds::max();
    if (duration >= std::chrono::duration_cast<std::chrono::duration<double>>(most)) {
        return most.count();
    }
    if (duration <= duration.zero()) {
        return 0;
    }
    return std::chrono::ceil<std::chrono::nanoseconds>(duration).count();
}

/// The moment that lies this long ahead.
template <typename Rep, typename Period>
[[nodiscard]] io::MonotonicTime moment_after(std::chrono::duration<Rep, Period> duration) noexcept {
    const io::MonotonicTime now = io::monotonic_now();
    const io::MonotonicTime ahead = nanoseconds_of(duration);
    constexpr io::MonotonicTime never = std::chrono::nanoseconds::max().count();
    return ahead > never - now ? never : now + ahead;
}

} // namespace penstock::detail
