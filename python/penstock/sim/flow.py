"""The physics behind the numbers: a valve that brings a gas flow to its setpoint.

Mass flow answers the setpoint as a first-order system with time constant `tau`; the setpoint
itself may move along a ramp. Both are integrated exactly over any step, so the result depends on
the instants asked for only through rounding: polling twice as often does not change the curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["STANDARD_KELVIN", "STANDARD_PSIA", "FlowLoop", "ValveHold", "volumetric_flow"]

#: Standard conditions of an Alicat as delivered: 25 degrees Celsius, 14.696 PSIA.
STANDARD_KELVIN: Final = 298.15
STANDARD_PSIA: Final = 14.696


def volumetric_flow(mass_flow: float, *, pressure_psia: float, celsius: float) -> float:
    """The flow through the actual gas state, from a flow at standard conditions (ideal gas)."""
    if pressure_psia <= 0.0:
        return 0.0
    return mass_flow * (STANDARD_PSIA / pressure_psia) * ((celsius + 273.15) / STANDARD_KELVIN)


class ValveHold(Enum):
    """What the valve does instead of following the setpoint."""

    NONE = "none"
    HELD = "held"
    CLOSED = "closed"


@dataclass(slots=True)
class FlowLoop:
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
    #: A flow imposed from outside (a burst upstream), or None while the loop is in charge.
    forced: float | None = None
    _at: float | None = None

    def advance(self, now: float) -> None:
        """Bring setpoint and flow to the instant `now`."""
        if self._at is None:
            self._at = now
        elapsed = now - self._at
        if elapsed < 0.0:
            return
        self._at = now
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

    def _settle(self, elapsed: float, *, slope: float) -> None:
        # Solution of tau * flow' = target - flow for a target that moves with a constant slope.
        start = self.active
        self.active += slope * elapsed
        if self.hold is ValveHold.HELD:
            return
        if self.hold is ValveHold.CLOSED:
            start, slope, end = 0.0, 0.0, 0.0
        else:
            end = self.active
        if self.tau <= 0.0:
            self.flow = end
            return
        lag = slope * self.tau
        self.flow = end - lag + (self.flow - start + lag) * math.exp(-elapsed / self.tau)
