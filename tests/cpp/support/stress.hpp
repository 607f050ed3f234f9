#pragma once

#include <cstdlib>

namespace penstock::testing {

/// The number of random programs: PENSTOCK_STRESS_ROUNDS instead of the default. The first uses the
/// seed PENSTOCK_STRESS_SEED (or 0), each further one the next seed.
struct Stress {
    explicit Stress(unsigned usual_rounds)
        : first(from_environment("PENSTOCK_STRESS_SEED", 0)),
          end(first + from_environment("PENSTOCK_STRESS_ROUNDS", usual_rounds)) {}

    /// In seconds, for a watchdog.
    [[nodiscard]] static unsigned patience() {
        return std::getenv("PENSTOCK_STRESS_ROUNDS") != nullptr ? 100'000 : 110;
    }

    unsigned first;
    unsigned end;

private:
    static unsigned from_environment(const char* name, unsigned otherwise) {
        const char* value = std::getenv(name);
        return value != nullptr ? static_cast<unsigned>(std::strtoul(value, nullptr, 10))
                                : otherwise;
    }
};

} // namespace penstock::testing
