#pragma once

#include "core/loop.hpp"

namespace penstock::python {

// The clock behind `loop.time()`: the native one, unless a subclass or an attribute of the loop
// overrides the method, as test tools do. The timers of such a loop follow the method. That costs a
// Python call for each timer and each iteration.

/// Converts a time to a timer's deadline. Rounds up: `loop.time()` is never before `when` once the
/// callback runs.
[[nodiscard]] io::MonotonicTime deadline_of(double when) noexcept;

/// The native clock in seconds.
[[nodiscard]] double native_time() noexcept;

/// Calls the loop's own `time()`, in seconds. May run any Python code. False with an exception set.
[[nodiscard]] bool read_time(LoopObject* loop, double& time) noexcept;

/// Checks whether `time` is overridden, and sets the clock of the timers.
void detect_clock_override(LoopObject* loop) noexcept;

} // namespace penstock::python
