#pragma once

#include <chrono>
#include <cmath>
#include <ratio>

#include <penstock/io/timer_queue.hpp>

namespace penstock::detail {

/// Rounds up to nanoseconds, so that nothing ends early. Durations that do not fit become the
/// maximum. Negative ones and NaN become 0: what is not a time must not wait forever.
template <typename Rep, typename Period>
[[nodiscard]] constexpr io::MonotonicTime
nanoseconds_of(std::chrono::duration<Rep, Period> duration) noexcept {
    constexpr std::chrono::nanoseconds most = std::chrono::nanoseconds::max();
    if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
        constexpr double beyond = 0x1p63; // the first number that does not fit
        const double exact = std::chrono::duration<double, std::nano>(duration).count();
        if (!(exact > 0)) { // also NaN
            return 0;
        }
        return exact < beyond ? static_cast<io::MonotonicTime>(std::ceil(exact)) : most.count();
    } else {
        if (duration >= std::chrono::duration_cast<std::chrono::duration<double>>(most)) {
            return most.count();
        }
        return duration > duration.zero()
                   ? std::chrono::ceil<std::chrono::nanoseconds>(duration).count()
                   : 0;
    }
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

/// A time of the options of a server, client or WebSocket: 0 means no limit, the same everywhere.
template <typename Rep, typename Period>
[[nodiscard]] constexpr std::chrono::duration<Rep, Period>
time_limit(std::chrono::duration<Rep, Period> given) noexcept {
    return given > given.zero() ? given : given.max();
}

} // namespace penstock::detail
