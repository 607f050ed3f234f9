#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <penstock/io/timer_queue.hpp>
#endif

namespace penstock::io {

/// Whether a short time is over since a moment, asked so often that the clock would cost too much.
///
/// It reads the processor's own counter: 5 to 15 ns, where clock_gettime(2) takes 20 to 110, and
/// CLOCK_MONOTONIC_COARSE knows only ticks of 1 to 10 ms. A task that works for 2 ms would run five
/// times before such a tick.
///
/// The length is approximate: an x86 counter has 1 to 5 ticks in a nanosecond, and 3 are assumed. A
/// counter that goes back, as between two processors that are not synchronised, counts as the end
/// of the slice, so a wrong counter makes a caller give way too often and never too late. It must
/// not measure anything.
class TimeSlice {
public:
    explicit TimeSlice(std::int64_t nanoseconds) noexcept : length_(ticks_in(nanoseconds)) {}

    void begin() noexcept { began_ = ticks(); }

    [[nodiscard]] bool is_over() const noexcept { return ticks() - began_ >= length_; }

    /// `is_over`. If it is over, another slice begins.
    [[nodiscard]] bool renew_if_over() noexcept {
        const std::uint64_t now = ticks();
        if (now - began_ < length_) {
            return false;
        }
        began_ = now;
        return true;
    }

private:
#if defined(__x86_64__)
    static std::uint64_t ticks() noexcept { return __builtin_ia32_rdtsc(); }

    static std::uint64_t ticks_in(std::int64_t nanoseconds) noexcept {
        return static_cast<std::uint64_t>(nanoseconds) * 3;
    }
#elif defined(__aarch64__)
    static std::uint64_t ticks() noexcept {
        std::uint64_t count = 0;
        asm volatile("mrs %0, cntvct_el0" : "=r"(count));
        return count;
    }

    static std::uint64_t ticks_in(std::int64_t nanoseconds) noexcept {
        std::uint64_t a_second = 0;
        asm volatile("mrs %0, cntfrq_el0" : "=r"(a_second));
        return static_cast<std::uint64_t>(nanoseconds) * a_second / 1'000'000'000;
    }
#else
    static std::uint64_t ticks() noexcept { return static_cast<std::uint64_t>(monotonic_now()); }

    static std::uint64_t ticks_in(std::int64_t nanoseconds) noexcept {
        return static_cast<std::uint64_t>(nanoseconds);
    }
#endif

    std::uint64_t length_;
    std::uint64_t began_ = 0;
};

} // namespace penstock::io
