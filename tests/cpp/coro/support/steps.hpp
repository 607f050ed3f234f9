#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

#include <penstock/result.hpp>
#include <penstock/task/shield.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/task.hpp>

#include "coro/support/logs.hpp"

namespace penstock::testing {

// Tasks that end after a known number of iterations.

inline Task<Result<int>> succeeds_after(int count, int value) {
    co_await turns(count);
    co_return value;
}

inline Task<Result<int>> fails_after(int count, std::errc reason) {
    co_await turns(count);
    co_return failure(reason);
}

inline Task<int> throws_after(int count) {
    co_await turns(count);
    throw std::runtime_error("broken contract");
}

/// Waits until it is cancelled, then one iteration longer, and logs its end.
inline Task<Result<int>> waits_for_ever(Log& log, std::string name) {
    const Result<> slept = co_await sleep_for(std::chrono::hours(1));
    // A cancelled yield waits only if the task's time slice is over, which a slow machine decides.
    co_await shield(turns(1));
    log.push_back(std::move(name));
    if (!slept) {
        co_return failure(slept.error());
    }
    co_return 0;
}

} // namespace penstock::testing
