"""The state of a controller after its device was closed."""

from __future__ import annotations

from enum import Enum

__all__ = ["SafeState"]


class SafeState(Enum):
    """What a controller does after its device was closed.

    A program that is killed closes nothing: the instrument then keeps its setpoint, whatever was
    chosen.
    """

    LEAVE = "leave"
    """It keeps its setpoint."""
    ZERO = "zero"
    """Its setpoint is zero, in whatever unit it counts."""
    HOLD = "hold"
    """Its valves are held where they are."""
