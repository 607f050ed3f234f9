"""Limits of fields: when an alarm begins, and when it ends.

Judged at every answer of the instrument, in order, without a clock of its own: the delay is
measured between answers. So a result depends on the readings alone, and tests need no waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitPlan:
    """A ``[[device.limit]]``: ``field`` is to stay from ``low`` to ``high``, in ``unit``.

    An alarm begins when it has been outside for ``delay`` seconds, and ends when it is inside by
    ``hysteresis``. ``unit`` None takes the one that the instrument has at its first answer.
    """

    field: str
    low: float | None = None
    high: float | None = None
    unit: str | None = None
    hysteresis: float = 0.0
    delay: float = 0.0
    safe: tuple[str, ...] | None = None
    """The devices that its alarm brings into their safe states; None: its own."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """The begin or the end of an alarm, as a sentence and for programs."""

    device: str
    field: str
    value: float | None
    begins: bool
    message: str


class LimitWatch:
    """One limit of one device. For the event loop's thread."""

    def __init__(self, device: str, plan: LimitPlan) -> None:
        self.device = device
        self.plan = plan
        self.active = False
        """Whether there is an alarm."""
        self.is_inside = False
        """Whether the newest number would end an alarm."""
        self._unit = plan.unit
        self._unit_is_known = plan.unit is not None
        self._outside_since_ns: int | None = None

    def judge(
        self, values: Mapping[str, object], units: Mapping[str, str | None], at_ns: int
    ) -> Alarm | None:
        """What an answer changes; None where nothing does.

        A value that is not a number (a field that shows ``OVER``, NaN) changes nothing.

        Args:
            values: the fields of the answer.
            units: the units in force, by field.
            at_ns: when it came, on the monotonic clock.
        """
        field = self.plan.field
        value = values.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        self.is_inside = False
        unit = units.get(field)
        if not self._unit_is_known:
            self._unit, self._unit_is_known = unit, True
        if unit != self._unit:
            # The number means something else now. It might be harmless or a thousand times as much.
            text = f"{field} is in {unit or 'no unit'} now, and its limit in {self._unit or 'none'}"
            return self._begin(float(value), f"{text}: it cannot be checked")
        number = float(value)
        if not self._is_outside(number):
            self._outside_since_ns = None
            self.is_inside = self._is_well_inside(number)
            if self.active and self.is_inside:
                self.active = False
                text = f"{field} is {self._shown(number)}, within its limits again"
                return Alarm(self.device, field, number, False, text)
            return None
        if self._outside_since_ns is None:
            self._outside_since_ns = at_ns
        lasted = (at_ns - self._outside_since_ns) / 1e9
        if lasted < self.plan.delay:
            return None
        return self._begin(number, self._describe(number, lasted))

    def _begin(self, value: float, text: str) -> Alarm | None:
        if self.active:
            return None
        self.active = True
        return Alarm(self.device, self.plan.field, value, True, text)

    def _is_outside(self, value: float) -> bool:
        low, high = self.plan.low, self.plan.high
        return (low is not None and value < low) or (high is not None and value > high)

    def _is_well_inside(self, value: float) -> bool:
        low, high, margin = self.plan.low, self.plan.high, self.plan.hysteresis
        return (low is None or value >= low + margin) and (high is None or value <= high - margin)

    def _describe(self, value: float, lasted: float) -> str:
        low = self.plan.low
        below = low is not None and value < low
        end = low if below else self.plan.high
        assert end is not None
        text = f"{self.plan.field} is {self._shown(value)}, {'below' if below else 'above'} "
        text += self._shown(end)
        return f"{text} for {lasted:.1f} s" if self.plan.delay else text

    def _shown(self, value: float) -> str:
        return f"{value:g} {self._unit}" if self._unit else f"{value:g}"
