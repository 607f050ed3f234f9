"""The two clocks of a recording, behind one small interface that tests can implement.

Cadence and latency come from the monotonic clock, which never steps. The wall clock is only read
to label a sample; when it is set, labels step with it, and :class:`ClockSteps` notices.

The monotonic clock counts from the boot of the machine: stamps of two files can be compared only
if their ``boot_id`` is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel

from penstock.record._sampling.slot_timer import SlotTimer, asyncio_loop

__all__ = ["Clock", "ClockSteps", "SystemClock", "boot_id"]

_STEP_NS = 50_000_000
"""NTP slews a clock by at most 0.5 ms a second; a step is usually larger."""
_BELIEVED_NS = 5_000_000
_TRIES = 5


class Clock(Protocol):
    """A monotonic clock, a wall clock and a way to wait, all in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never goes backwards."""

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z, by the wall clock."""

    async def sleep_until_ns(self, target: int) -> None:
        """Return when ``monotonic_ns() >= target``; always at least one cancellation point."""


class SystemClock:
    """``time.monotonic_ns`` and ``time.time_ns``. For the tasks of one event loop at a time."""

    def __init__(self) -> None:
        self._timer: SlotTimer | None = None

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc_ns(self) -> int:
        return time.time_ns()

    def suspended_ns(self) -> int:
        """For how long the machine was suspended since it was started, in nanoseconds.

        By CLOCK_BOOTTIME, which goes on then, against CLOCK_MONOTONIC (clock_gettime(2)).
        """
        monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic

    async def sleep_until_ns(self, target: int) -> None:
        if target <= time.monotonic_ns():
            await anyio.lowlevel.checkpoint()
            return
        timer = self._timer
        # One loop at a time, so a loop that runs is the one that was found before: to find it
        # costs two system calls on CPython 3.11.
        if timer is None or not timer.loop.is_running():
            loop = asyncio_loop()
            timer = self._timer = None if loop is None else SlotTimer(loop)
        if timer is not None:
            await timer.wait_until(target)
            return
        # The event loop's clock is not ours (trio's has a random offset, and a float cannot hold
        # nanoseconds of uptime), so the time that is left is computed at every wait.
        while True:
            await anyio.sleep(max(target - time.monotonic_ns(), 0) / 1e9)
            if time.monotonic_ns() >= target:
                return


class ClockSteps:
    """Notices when the wall clock is set, by its distance from the monotonic clock.

    Only a step counts. A clock that is slewed, or drifts, changes its distance slowly, and every
    check stores the present distance.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._distance = clock.utc_ns() - clock.monotonic_ns()
        self._asleep: Callable[[], int] = getattr(clock, "suspended_ns", lambda: 0)
        self._suspended = self._asleep()

    def explain(self, step: int) -> str:
        """What a step that :meth:`seen` has just returned was, as a sentence. Call it once."""
        before, self._suspended = self._suspended, self._asleep()
        suspended = self._suspended - before
        moved = f"the wall clock went {step / 1e9:+.6f} s against the monotonic clock"
        if suspended < _STEP_NS:
            return f"{moved}: it was set"
        text = f"{moved}: the machine was suspended for {suspended / 1e9:.3f} s"
        if abs(step - suspended) >= _STEP_NS:
            text += f", and the clock was set by {(step - suspended) / 1e9:+.6f} s"
        return text

    def seen(self, monotonic_ns: int, utc_ns: int) -> int:
        """Return by how many nanoseconds the wall clock was set since the last call, or 0.

        Both stamps must be of the same time.
        """
        distance = utc_ns - monotonic_ns
        step = distance - self._distance
        if -_STEP_NS < step < _STEP_NS:
            self._distance = distance
            return 0
        # The process may have been off the processor between the two readings.
        clock = self._clock
        for _ in range(_TRIES):
            before = clock.monotonic_ns()
            utc = clock.utc_ns()
            after = clock.monotonic_ns()
            distance = utc - (before + after) // 2
            if after - before < _BELIEVED_NS:
                break
        else:
            return 0
        step = distance - self._distance
        self._distance = distance
        return 0 if -_STEP_NS < step < _STEP_NS else step


@cache
def boot_id() -> str:
    """The id of the present boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
