"""The physics behind the numbers: a valve that brings a gas flow to its setpoint.

Mass flow answers the setpoint as a first-order system with time constant ``tau``; the setpoint
itself may move along a ramp. Both are integrated exactly over any step, so the result depends on
the instants asked for only through rounding: polling twice as often does not change the curve.

Totalizers count it, with modes and limits that have the meaning of the maker's serial primer;
batches close the valve. Two points are guesses: when exactly a flow counts as stopped, and that a
total is lost without power unless saving is on.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

#: Standard conditions of an Alicat as delivered: 25 degrees Celsius, 14.696 PSIA.
STANDARD_KELVIN: Final = 298.15
STANDARD_PSIA: Final = 14.696
#: One nanosecond, in minutes.
_HALVINGS: Final = 36


def volumetric_flow(mass_flow: float, *, pressure_psia: float, celsius: float) -> float:
    """The flow through the actual gas state, from a flow at standard conditions (ideal gas)."""
    if pressure_psia <= 0.0:
        return 0.0
    return mass_flow * (STANDARD_PSIA / pressure_psia) * ((celsius + 273.15) / STANDARD_KELVIN)


class ValveHold(Enum):
    """The state of a valve that does not follow the setpoint."""

    NONE = "none"
    HELD = "held"
    CLOSED = "closed"


@dataclass(slots=True)
class FlowControlLoop:
    """State of one control loop, in the unit of its full scale.

    Time is whatever the caller counts in seconds; a step back in time changes nothing.
    """

    tau: float = 0.3
    flow: float = 0.0
    requested: float = 0.0
    active: float = 0.0
    #: How fast the active setpoint may move, per second; 0 means that it jumps.
    ramp: float = 0.0
    hold: ValveHold = ValveHold.NONE
    #: A flow imposed from outside (a burst upstream), or None while the loop controls the flow.
    forced: float | None = None
    #: The total so far: the integral of the flow over seconds.
    passed: float = 0.0
    #: The part of it with negative flow, which is at most 0.
    passed_backward: float = 0.0
    _at: float | None = None

    def advance_until_passed(self, now: float, passed: float) -> bool:
        """Advance the state to ``now``, or to the earlier time at which the total is ``passed``.

        Returns whether that total is reached.
        """
        whole = copy(self)
        whole.advance(now)
        if whole.passed < passed:
            self.advance(now)
            return False
        begin, end = (now if self._at is None else self._at), now
        for _ in range(_HALVINGS):
            middle = (begin + end) / 2.0
            part = copy(self)
            part.advance(middle)
            begin, end = (begin, middle) if part.passed >= passed else (middle, end)
        self.advance(end)
        return True

    def advance(self, now: float) -> None:
        """Advance setpoint and flow to the time ``now``."""
        if self._at is None:
            self._at = now
        elapsed = now - self._at
        if elapsed < 0.0:
            return
        self._at = now
        passed, backward = self.passed, self.passed_backward
        if self.ramp <= 0.0 or self.active == self.requested:
            self.active = self.requested
            self._settle(elapsed, slope=0.0)
        else:
            gap = self.requested - self.active
            ramping = min(elapsed, abs(gap) / self.ramp)
            self._settle(ramping, slope=math.copysign(self.ramp, gap))
            if ramping < elapsed:
                self.active = self.requested
                self._settle(elapsed - ramping, slope=0.0)
        if self.forced is not None:
            self.flow = self.forced
            self.passed = passed + self.forced * elapsed
            self.passed_backward = backward + min(0.0, self.forced) * elapsed

    def _settle(self, elapsed: float, *, slope: float) -> None:
        before = copy(self)
        self._integrate(elapsed, slope=slope)
        if before.flow < 0.0 or self.flow < 0.0:
            self.passed_backward += self._backward(before, elapsed, slope)

    def _backward(self, before: FlowControlLoop, elapsed: float, slope: float) -> float:
        """The total of negative flow since ``before``; the flow changes its sign at most once."""
        if before.flow <= 0.0 and self.flow <= 0.0:
            return self.passed - before.passed
        begin, end = 0.0, elapsed
        part = before
        for _ in range(_HALVINGS):
            middle = (begin + end) / 2.0
            part = copy(before)
            part._integrate(middle, slope=slope)
            same = (part.flow < 0.0) == (before.flow < 0.0)
            begin, end = (middle, end) if same else (begin, middle)
        until = part.passed - before.passed
        return until if before.flow < 0.0 else self.passed - before.passed - until

    def _integrate(self, elapsed: float, *, slope: float) -> None:
        # Solution of tau * flow' = target - flow for a target that moves with a constant slope.
        start = self.active
        self.active += slope * elapsed
        if self.hold is ValveHold.HELD:
            self.passed += self.flow * elapsed
            return
        if self.hold is ValveHold.CLOSED:
            start, slope, end = 0.0, 0.0, 0.0
        else:
            end = self.active
        ideal = (start + end) / 2.0 * elapsed
        if self.tau <= 0.0:
            self.flow = end
            self.passed += ideal
            return
        lag = slope * self.tau
        error = self.flow - start + lag
        decay = math.exp(-elapsed / self.tau)
        self.flow = end - lag + error * decay
        self.passed += ideal - lag * elapsed + error * self.tau * (1.0 - decay)


#: Below this part of full scale, nothing flows.
_STOPPED: Final = 0.005


class TotalMode(IntEnum):
    """Which flow a totalizer counts."""

    POSITIVE = 0
    NEGATIVE = 1
    BOTH = 2
    POSITIVE_UNTIL_STOP = 3
    """The flow forwards; the total begins at zero again when the flow has stopped."""


class LimitMode(IntEnum):
    """What a totalizer does at the largest number that its digits can show."""

    STOP = 0
    ROLL = 1
    STOP_AND_SHOW = 2
    ROLL_AND_SHOW = 3

    @property
    def rolls(self) -> bool:
        """Whether it counts on from zero."""
        return self in (LimitMode.ROLL, LimitMode.ROLL_AND_SHOW)

    @property
    def shows(self) -> bool:
        """Whether the status TOV is shown from then on."""
        return self in (LimitMode.STOP_AND_SHOW, LimitMode.ROLL_AND_SHOW)


@dataclass(slots=True)
class Totalizer:
    """One total, in the unit of the flow times minutes.

    ``statistic`` is the flow that it counts, None while it is not shown.
    """

    statistic: int | None = None
    mode: TotalMode = TotalMode.BOTH
    limit_mode: LimitMode = LimitMode.STOP
    digits: int = 10
    decimals: int = 2
    value: float = 0.0
    overflowed: bool = False

    @property
    def top(self) -> float:
        """The highest number that its digits show."""
        return float(10 ** (self.digits - self.decimals)) - float(10**-self.decimals)

    def reset(self) -> None:
        """Begin a new total."""
        self.value = 0.0
        self.overflowed = False

    def count(self, forward: float, backward: float, *, flow: float, full_scale: float) -> None:
        """Add what has passed in both directions; ``flow`` is what flows at the end of it."""
        if self.mode is TotalMode.POSITIVE:
            backward = 0.0
        elif self.mode is TotalMode.NEGATIVE:
            forward = 0.0
        elif self.mode is TotalMode.POSITIVE_UNTIL_STOP:
            backward = 0.0
            if flow < _STOPPED * full_scale:
                self.reset()
                return
        value = self.value + forward + backward
        if abs(value) <= self.top:
            self.value = value
            return
        self.overflowed = True
        sign = 1.0 if value > 0.0 else -1.0
        if self.limit_mode.rolls:
            self.value = sign * (abs(value) % float(10 ** (self.digits - self.decimals)))
        else:
            self.value = sign * self.top


@dataclass(slots=True)
class Batch:
    """A volume after which the valve closes; 0 while there is none.

    ``began`` is what had passed when it began, in the unit of the flow times seconds.
    """

    volume: float = 0.0
    began: float = 0.0
    done: bool = False

    @property
    def end(self) -> float:
        """The total at which it ends."""
        return self.began + 60.0 * self.volume

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.volume > 0.0 and not self.done

    def remaining(self, passed: float) -> float:
        """The rest of the volume."""
        return max(0.0, (self.end - passed) / 60.0) if self.volume else 0.0
