"""The alarms of the page: when they begin, when they end, and that a person has seen them.

An alarm does not chatter (ISA-18.2): a limit has a hysteresis, and a device that answers only some
of its polls counts as failing until it has answered several in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from penstock.record.envelopes.bins import Numbers

_HYSTERESIS = 0.01
_JUDGED_POLLS = 16
_LOST_POLLS = 3
_SOUND_POLLS = 8
_SLOW_S = 1.0
_SOUND_SLOW_POLLS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of values without an alarm, both ends included.

    Attributes:
        low: the lowest value without an alarm; None for no low limit.
        high: the highest value without an alarm; None for no high limit.
        field: the column; None for the device's default quantity.
        hysteresis: the distance inside the limit, in the unit of the values, at which an alarm
            ends. By default 1 % of the range, or of the limit if there is only one.
        judged: False if the recorder judges the values: its events are then the alarms, and the
            page only draws the lines.

    Raises:
        ValueError: a limit or the hysteresis is NaN.
    """

    low: float | None = None
    high: float | None = None
    field: str | None = None
    hysteresis: float | None = None
    judged: bool = True

    def __post_init__(self) -> None:
        for value in (self.low, self.high, self.hysteresis):
            if value is not None and math.isnan(value):
                raise ValueError(f"{self} has a limit that is not a number, and would never alarm")

    @property
    def margin(self) -> float:
        """The hysteresis as a number."""
        if self.hysteresis is not None:
            return self.hysteresis
        ends = [end for end in (self.low, self.high) if end is not None and math.isfinite(end)]
        if len(ends) == 2:
            return _HYSTERESIS * (ends[1] - ends[0])
        return _HYSTERESIS * abs(ends[0]) if ends else 0.0

    def breach(self, low: float, high: float) -> tuple[str, float] | None:
        """Which limit a range of values passes, and by which value; None if it is inside."""
        if self.high is not None and high > self.high:
            return "high", high
        if self.low is not None and low < self.low:
            return "low", low
        return None

    def is_well_inside(self, value: float) -> bool:
        """Whether ``value`` ends an alarm."""
        low, high = self.low, self.high
        return (low is None or value >= low + self.margin) and (
            high is None or value <= high - self.margin
        )


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm of a device.

    ``kind`` is ``high``, ``low``, ``silent``, ``failing``, ``gaps``, or ``limit`` for one of the
    recorder's own. ``since`` is its time in nanoseconds since 1970. ``seen``: a person has
    acknowledged it, for all browsers.
    """

    kind: str
    text: str
    since: int
    seen: bool = False

    @property
    def is_mild(self) -> bool:
        """Whether it is worth a mark, and no alarm's colour."""
        return self.kind == "gaps"


@dataclass(slots=True)
class LimitState:
    """One limit of one device: which end is passed, ``"low"`` or ``"high"``, and since when."""

    limits: Limits
    passed: str | None = None
    since: int = 0
    text: str = ""

    def judge(self, values: Numbers, unit: str, t: int) -> list[tuple[str, str]]:
        """What these values change, as kinds and messages of events. All of them count."""
        values = values[~np.isnan(values)]
        if not len(values):
            return []
        limits, found = self.limits, []
        last = float(values[-1])
        worst = limits.breach(float(values.min()), float(values.max()))
        if worst is not None and self.passed is None:
            which, value = worst
            limit = limits.high if which == "high" else limits.low
            word = "above" if which == "high" else "below"
            self.text = f"{value:g}{unit} is {word} the limit {limit:g}{unit}"
            self.passed, self.since = which, t
            found.append(("alarm", self.text))
        now = limits.breach(last, last)
        if now is not None:
            self.passed = now[0]
        elif self.passed is not None and limits.is_well_inside(last):
            self.passed = None
            found.append(("alarm_cleared", f"{last:g}{unit} is within the limits again"))
        return found


@dataclass(slots=True)
class FailureWatch:
    """Whether a device is failing, judged by its newest polls.

    A device begins to fail after three failed polls in a row, or when half of the newest 16 have
    failed; at 1 Hz or slower after one failed poll. It stops failing when 8 polls in a row were
    answered; at 1 Hz or slower after two.
    """

    failing: bool = False
    since: int = 0
    _newest: list[bool] = field(default_factory=list)

    def add(self, failed: list[bool], period: float, t: int) -> None:
        """Judge the polls that ``failed`` tells of; ``t`` is the time of the last one."""
        self._newest = (self._newest + failed[-_JUDGED_POLLS:])[-_JUDGED_POLLS:]
        slow = period >= _SLOW_S
        lost, sound = (1, _SOUND_SLOW_POLLS) if slow else (_LOST_POLLS, _SOUND_POLLS)
        ends = self._newest
        if not self.failing:
            begins = len(ends) >= lost and all(ends[-lost:])
            if begins or sum(ends) >= _JUDGED_POLLS // 2:
                self.failing, self.since = True, t
        elif len(ends) >= sound and not any(ends[-sound:]):
            self.failing = False
