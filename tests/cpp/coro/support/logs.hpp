#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/task/task.hpp>
#include <penstock/task/yield.hpp>

namespace penstock::testing {

using Log = std::vector<std::string>;

/// Runs everything else that is ready this many times.
inline Task<> turns(int count) {
    for (int i = 0; i < count; ++i) {
        (void)co_await yield();
    }
}

} // namespace penstock::testing
