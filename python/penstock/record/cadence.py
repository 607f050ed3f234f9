"""Slots on the time line: slot ``n`` belongs at ``start + n * period``, for every ``n``.

The period is kept as a fraction and each target is computed from ``start``, never from the slot
before it. Adding a rounded period again and again was rejected: at 3 Hz a float period drifts by
some 100 ns in 10^6 slots, and a late wake-up would push every later slot.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["Cadence"]

_SECOND = 1_000_000_000


class Cadence:
    """Exact integer arithmetic between slot numbers and monotonic nanoseconds."""

    __slots__ = ("_denominator", "_numerator", "start_ns")

    def __init__(self, start_ns: int, rate_hz: float) -> None:
        if not (math.isfinite(rate_hz) and 1e-6 <= rate_hz <= 1e6):
            raise ValueError(f"rate_hz must lie between 1e-6 and 1e6 Hz, not {rate_hz!r}")
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

    def slots_within(self, duration_s: float) -> int:
        """How many slots are due before ``duration_s`` seconds have passed (at least one)."""
        if not (math.isfinite(duration_s) and duration_s > 0):
            raise ValueError(f"duration must be more than 0 s, not {duration_s!r}")
        exact = Fraction(repr(float(duration_s))) * _SECOND * self._numerator / self._denominator
        return max(1, math.ceil(exact))
