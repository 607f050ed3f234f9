"""The two clocks of a recording, behind one small interface that tests can implement.

Cadence and latency come from the monotonic clock, which never steps. The wall clock is only read
to label a sample; when it is set, labels step with it, and :class:`ClockSteps` notices.

The monotonic clock counts from the boot of the machine: stamps of two files can be compared only
if their ``boot_id`` is the same.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from time import monotonic_ns
from typing import Protocol

import anyio
import anyio.lowlevel

__all__ = ["Cadence", "Clock", "ClockSteps", "SystemClock", "boot_id"]

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
    """``time.monotonic_ns`` and ``time.time_ns``. Use it from one event loop at a time."""

    def __init__(self) -> None:
        self._timer: SlotTimer | None = None

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC, which never goes backwards and stops during a suspend."""
        return time.monotonic_ns()

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z, by the wall clock."""
        return time.time_ns()

    def suspended_ns(self) -> int:
        """Nanoseconds for which the machine was suspended since its boot.

        That is CLOCK_BOOTTIME, which runs during a suspend, minus CLOCK_MONOTONIC
        (clock_gettime(2)).
        """
        monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic

    async def sleep_until_ns(self, target: int) -> None:
        """Return when ``monotonic_ns() >= target``; always at least one cancellation point."""
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
            waiter = timer.join(target)
            try:
                await waiter
            except BaseException:
                timer.leave(target, waiter)
                raise
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


# One timer and one wake-up for all tasks whose slots are due at the same moment.
#
# Devices of one rate that begin together share every slot. Each task with a timer of its own would
# wake the loop once a device; so the first that waits for a moment makes the timer, and the others
# join it.


def asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the running asyncio task; None in a task of trio."""
    try:
        return None if asyncio.current_task() is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Moment:
    """The tasks that wait for one moment, and its timer."""

    __slots__ = ("timer", "waiters")

    def __init__(self) -> None:
        self.waiters: list[asyncio.Future[None]] = []
        self.timer: asyncio.TimerHandle | None = None


class SlotTimer:
    """Waits of the tasks of one asyncio event loop for moments of ``time.monotonic_ns``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._moments: dict[int, _Moment] = {}

    def join(self, target_ns: int) -> asyncio.Future[None]:
        """A future for ``time.monotonic_ns() >= target_ns``, with all others that wait for it.

        Whoever gives the wait up calls :meth:`leave`.
        """
        moment = self._moments.get(target_ns)
        if moment is None:
            moment = self._moments[target_ns] = _Moment()
            self._arm(moment, target_ns)
        waiter = self.loop.create_future()
        moment.waiters.append(waiter)
        return waiter

    def leave(self, target_ns: int, waiter: asyncio.Future[None]) -> None:
        """Take a future back; the last one of a moment that has not come takes its timer along."""
        moment = self._moments.get(target_ns)
        if moment is None:
            return  # it has come meanwhile
        if waiter in moment.waiters:
            moment.waiters.remove(waiter)
        if not moment.waiters and moment.timer is not None:
            moment.timer.cancel()
            del self._moments[target_ns]

    def _arm(self, moment: _Moment, target_ns: int) -> None:
        # A loop's clock need not be ours, so the time that is left is computed anew.
        left_s = max(target_ns - monotonic_ns(), 0) / 1e9
        moment.timer = self.loop.call_later(left_s, self._ring, moment, target_ns)

    def _ring(self, moment: _Moment, target_ns: int) -> None:
        if monotonic_ns() < target_ns:
            # A loop whose timers count whole milliseconds may fire early.
            self._arm(moment, target_ns)
            return
        del self._moments[target_ns]
        moment.timer = None
        for waiter in moment.waiters:
            if not waiter.done():
                waiter.set_result(None)


# Slots on the time line: slot ``n`` belongs at ``start + n * period``, for every ``n``.
#
# The period is kept as a fraction and each target is computed from ``start``, never from the slot
# before it. Adding a rounded period again and again was rejected: at 3 Hz a float period drifts by
# some 100 ns in 10^6 slots, and a late wake-up would push every later slot.

_SECOND = 1_000_000_000


class Cadence:
    """Exact integer arithmetic between slot numbers and monotonic nanoseconds."""

    __slots__ = ("_denominator", "_numerator", "start_ns")

    def __init__(self, start_ns: int, rate_hz: float) -> None:
        if not (math.isfinite(rate_hz) and 1e-6 <= rate_hz <= 1e6):
            raise ValueError(f"rate_hz must be between 1e-6 and 1e6 Hz, not {rate_hz!r}")
        # 0.1 Hz means one in ten seconds, not the binary fraction next to it.
        rate = Fraction(repr(float(rate_hz)))
        self.start_ns: int = start_ns
        self._numerator = rate.numerator
        self._denominator = rate.denominator * _SECOND

    def target_ns(self, slot: int) -> int:
        """When slot ``slot`` is due, rounded down to a nanosecond."""
        return self.start_ns + slot * self._denominator // self._numerator

    def slot_at(self, now_ns: int) -> int:
        """The last slot that was due at ``now_ns`` (negative before the start)."""
        # target_ns rounds down, so the slot that is due "now" may lie a fraction of a nanosecond
        # ahead of the exact quotient: the +1 and -1 make this its exact inverse.
        elapsed = now_ns - self.start_ns
        return ((elapsed + 1) * self._numerator - 1) // self._denominator

    def slots_within(self, duration: float) -> int:
        """How many slots are due before ``duration`` seconds have passed (at least one)."""
        if not (math.isfinite(duration) and duration > 0):
            raise ValueError(f"duration must be more than 0 s, not {duration!r}")
        exact = Fraction(repr(float(duration))) * _SECOND * self._numerator / self._denominator
        return max(1, math.ceil(exact))
