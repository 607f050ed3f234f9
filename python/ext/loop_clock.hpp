#pragma once

#include "loop.hpp"

namespace penstock::python {

// What `loop.time()` says. It is the native clock, unless a subclass or an attribute of the loop
// overrides the method, as test tools with a clock of their own do. The timers of such a loop go by the
// method, which then costs a call of Python for each of them and for each iteration.

/// The time as a timer's deadline. Rounded up, so that `loop.time()` is never before `when` once the callback
/// runs.
[[nodiscard]] io::MonotonicTime deadline_of(double when) noexcept;

/// The native clock, in seconds.
[[nodiscard]] double native_time() noexcept;

/// What the loop's own `time()` returns, in seconds. May run any Python code; false with an exception set.
[[nodiscard]] bool read_time(LoopObject* loop, double& time) noexcept;

/// Looks whether `time` is overridden, and lets the timers go by what it is.
void notice_clock(LoopObject* loop) noexcept;

} // namespace penstock::python
