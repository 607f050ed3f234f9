#pragma once

#include "file_engine.hpp"

#include <algorithm>

namespace penstock::python {

// What needs no device is done at once, so a task may go on for as long as it finds everything in the
// caches. Its turn is measured in time: how long a megabyte or a thousand lines take depends on the
// machine and on what the program does with them. The clock is looked at now and then only.

/// How long a task may go on before the others of the loop get their turn; several that give way together
/// take up to twice as long.
inline constexpr io::MonotonicTime turn_time = 1'000'000;

/// Whether the running task should give way; `cost` is what it is about to do, or has done, in bytes of the
/// page cache that could be copied meanwhile.
inline bool turn_is_over(FileEngineObject* engine, std::int64_t cost = 0) noexcept {
    engine->turn_credit -= cost;
    if (engine->turn_credit > 0) {
        return false;
    }
    engine->turn_credit = FileEngineObject::bytes_between_looks;
    return io::monotonic_now() >= engine->turn_ends;
}

/// Counts a task that gives way.
inline void give_way(FileEngineObject* engine) noexcept {
    ++engine->paused;
}

/// The turn of a task that had given way; those that still wait for theirs share the time. Shorter turns cost
/// a measurable part of 32 readers' throughput.
inline void begin_turn(FileEngineObject* engine) noexcept {
    --engine->paused;
    engine->turn_credit = FileEngineObject::bytes_between_looks;
    engine->turn_ends = io::monotonic_now() + 2 * turn_time / (2 + engine->paused);
}

} // namespace penstock::python
