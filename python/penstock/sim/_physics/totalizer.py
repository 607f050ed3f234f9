"""Totalizers with their modes and limits, and batches, which close the valve.

Modes and limits have the meaning of the maker's serial primer. Two points are guesses: when exactly
a flow counts as stopped, and that a total is lost without power unless saving is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["Batch", "LimitMode", "TotalMode", "Totalizer"]

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
