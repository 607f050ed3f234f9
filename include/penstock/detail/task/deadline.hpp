#pragma once

#include <chrono>

#include <penstock/io/timer_queue.hpp>

namespace penstock::detail {

/// Rounds up to nanoseconds, so that nothing ends early. Durations that do not fit become the
/// maximum. Negative ones become 0.
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

/// The time this long after now.
template <typename Rep, typename Period>
[[nodiscard]] io::MonotonicTime
deadline_after(std::chrono::duration<Rep, Period> duration,
               io::MonotonicTime now = io::monotonic_now()) noexcept {
    const io::MonotonicTime ahead = nanoseconds_of(duration);
    constexpr io::MonotonicTime never = std::chrono::nanoseconds::max().count();
    return ahead > never - now ? never : now + ahead;
}

} // namespace penstock::detail
