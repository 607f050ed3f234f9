// Latencies in constant space.
#pragma once

#include "clocks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace bench {

// Log-linear buckets, 64 per octave: 1.6 % resolution, constant space, a few ns per entry.
class Histogram {
public:
    void add(Nanoseconds value) {
        ++counts_[bucket(static_cast<std::uint64_t>(std::max<Nanoseconds>(value, 1)))];
        ++total_;
        largest_ = std::max(largest_, value);
    }

    void add(const Histogram& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            counts_[i] += other.counts_[i];
        }
        total_ += other.total_;
        largest_ = std::max(largest_, other.largest_);
    }

    void clear() { *this = Histogram{}; }

    [[nodiscard]] double quantile_us(double share) const {
        const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total_));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen > wanted) {
                return lower_edge(i) / 1e3;
            }
        }
        return max_us();
    }

    [[nodiscard]] double max_us() const { return static_cast<double>(largest_) / 1e3; }

private:
    static constexpr unsigned kFraction = 6;

    static std::size_t bucket(std::uint64_t value) {
        if (value < (1U << kFraction)) {
            return value;
        }
        const unsigned octave = 63U - static_cast<unsigned>(__builtin_clzll(value));
        const unsigned shift = octave - kFraction;
        return (static_cast<std::size_t>(shift + 1) << kFraction) +
               static_cast<std::size_t>((value >> shift) - (1U << kFraction));
    }

    static double lower_edge(std::size_t index) {
        const std::size_t octave = index >> kFraction;
        const std::size_t fraction = index & ((1U << kFraction) - 1);
        if (octave == 0) {
            return static_cast<double>(index);
        }
        return static_cast<double>(((std::uint64_t{1} << kFraction) + fraction) << (octave - 1));
    }

    std::array<std::uint64_t, 60 << kFraction> counts_{};
    std::uint64_t total_ = 0;
    Nanoseconds largest_ = 0;
};

} // namespace bench
