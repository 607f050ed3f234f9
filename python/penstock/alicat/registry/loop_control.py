"""What a controller can control: the statistics that a setpoint may be of."""

from __future__ import annotations

from enum import IntEnum

from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry.statistics import Statistic

__all__ = ["LoopControlVariable"]


class LoopControlVariable(IntEnum):
    """The controlled quantity; the value is its number on the wire."""

    ABS_PRESS_SETPT = 34
    VOL_FLOW_SETPT = 36
    MASS_FLOW_SETPT = 37
    GAUGE_PRESS_SETPT = 38
    DIFF_PRESS_SETPT = 39
    ABS_PRESS_SECOND_SETPT = 345
    GAUGE_PRESS_SECOND_SETPT = 353
    DIFF_PRESS_SECOND_SETPT = 361

    @property
    def statistic(self) -> Statistic:
        """The setpoint's statistic."""
        return Statistic.by_code(self.value)

    @classmethod
    def coerce(cls, value: LoopControlVariable | Statistic | str | int) -> LoopControlVariable:
        """Return a variable from itself, its setpoint's statistic, its name or its number.

        A measured quantity (``mass_flow``) stands for its setpoint.

        Raises:
            AlicatValidationError: no setpoint can be of that.
        """
        if isinstance(value, LoopControlVariable):
            return value
        statistic = Statistic.coerce(value)
        for variable in cls:
            if statistic in (variable.statistic, variable.statistic.controlled):
                return variable
        names = ", ".join(variable.name.lower() for variable in cls)
        raise AlicatValidationError(f"{value!r} cannot be controlled; choose one of {names}")
