#pragma once

#include "files/file_engine.hpp"

#include <algorithm>

namespace penstock::python {

// Operations that need no device complete at once, so a task that finds all its data in the caches
// would never yield. The limit is a time and not a size: how long a megabyte or a thousand lines
// take depends on the machine and the program. The clock is not read for every operation, but
// whenever the task may have worked for long since the last reading: the bound holds for a task
// that computes between its operations, too.

/// The longest time that a task may run before it yields. Several tasks that yield together take up
/// to twice as long.
inline constexpr io::MonotonicTime time_slice = 1'000'000;

/// Whether the running task should yield. `cost` is its current work, in bytes that could be copied
/// from the page cache in the same time.
inline bool should_yield(FileEngineObject* engine, std::int64_t cost = 0) noexcept {
    engine->slice_credit -= cost;
    if (engine->slice_credit > 0 && !engine->clock_reading.is_over()) {
        return false;
    }
    engine->slice_credit = FileEngineObject::bytes_between_clock_reads;
    engine->clock_reading.begin();
    return io::monotonic_now() >= engine->slice_end;
}

/// Records that a task yields.
inline void yield_now(FileEngineObject* engine) noexcept {
    ++engine->paused;
}

/// Begins the time slice of a task that had yielded. The slice is shorter the more tasks still
/// wait. Rejected: a shorter slice for a single task, which costs 32 readers a measurable part of
/// their throughput.
inline void begin_time_slice(FileEngineObject* engine) noexcept {
    --engine->paused;
    engine->slice_credit = FileEngineObject::bytes_between_clock_reads;
    engine->clock_reading.begin();
    engine->slice_end = io::monotonic_now() + 2 * time_slice / (2 + engine->paused);
}

} // namespace penstock::python
