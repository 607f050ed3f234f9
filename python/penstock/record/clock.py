"""The two clocks of a recording, behind one small seam so that tests can bring their own.

Cadence and latency come from the monotonic clock, which never steps. The wall clock is only ever
read to label a sample; when NTP steps it, labels step with it and ``t_mono_ns`` tells by how much.
"""

from __future__ import annotations

import time
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """A monotonic clock, a wall clock and a way to wait, all in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never goes backwards."""

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z, by the wall clock."""

    async def sleep_until_ns(self, target: int) -> None:
        """Return when ``monotonic_ns() >= target``; always at least one cancellation point."""


class SystemClock:
    """``time.monotonic_ns``, ``time.time_ns`` and :func:`anyio.sleep_until`."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc_ns(self) -> int:
        return time.time_ns()

    async def sleep_until_ns(self, target: int) -> None:
        # The event loop's clock need not be ours (trio's has a random offset, and a float cannot
        # hold nanoseconds of uptime), so the deadline is translated at every wait. The loop is
        # for event loops whose timers count whole milliseconds and may therefore fire early.
        while True:
            remaining = target - time.monotonic_ns()
            await anyio.sleep_until(anyio.current_time() + max(remaining, 0) / 1e9)
            if time.monotonic_ns() >= target:
                return
