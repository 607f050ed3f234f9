"""Statistics: the numbers under which an instrument knows its measured and set quantities."""

from __future__ import annotations

from enum import StrEnum

from ..errors import UnknownStatisticError
from .lookup import Registry

__all__ = ["Statistic"]


class Statistic(StrEnum):
    """A quantity that an instrument measures, controls or reports."""

    NONE = "none"
    ABS_PRESS = "abs_press"
    TEMP_STREAM = "temp_stream"
    VOL_FLOW = "vol_flow"
    MASS_FLOW = "mass_flow"
    GAUGE_PRESS = "gauge_press"
    DIFF_PRESS = "diff_press"
    TOT_VOL = "tot_vol"
    TOT_MASS = "tot_mass"
    VALVE_DRIVE = "valve_drive"
    BARO_PRESS = "baro_press"
    VOL_FLOW_EXT = "vol_flow_ext"
    REL_HUM = "rel_hum"
    SETPT = "setpt"
    ABS_PRESS_SETPT = "abs_press_setpt"
    VOL_FLOW_SETPT = "vol_flow_setpt"
    MASS_FLOW_SETPT = "mass_flow_setpt"
    GAUGE_PRESS_SETPT = "gauge_press_setpt"
    DIFF_PRESS_SETPT = "diff_press_setpt"
    ABS_PRESS_SECOND = "abs_press_second"
    ABS_PRESS_SECOND_SETPT = "abs_press_second_setpt"
    GAUGE_PRESS_SECOND = "gauge_press_second"
    GAUGE_PRESS_SECOND_SETPT = "gauge_press_second_setpt"
    DIFF_PRESS_SECOND = "diff_press_second"
    DIFF_PRESS_SECOND_SETPT = "diff_press_second_setpt"
    FLUID_NAME = "fluid_name"

    @property
    def code(self) -> int:
        """The number on the wire."""
        return _STATISTICS.code_of(self)

    @property
    def is_setpoint(self) -> bool:
        """Whether this is what a controller was told, and not what it measures."""
        return self is Statistic.SETPT or self in _CONTROLLED

    @property
    def controlled(self) -> Statistic | None:
        """Of a setpoint: the quantity that it sets (``MASS_FLOW`` of ``MASS_FLOW_SETPT``)."""
        return _CONTROLLED.get(self)

    @classmethod
    def from_code(cls, code: int) -> Statistic | None:
        """The statistic with this number, or ``None`` for one not listed here."""
        return _STATISTICS.find(code)

    @classmethod
    def by_code(cls, code: int) -> Statistic:
        """The statistic with this number.

        Raises:
            UnknownStatisticError: no statistic listed here has it.
        """
        return _STATISTICS.by_code(code)

    @classmethod
    def coerce(cls, value: Statistic | str | int) -> Statistic:
        """A statistic from itself, its name (``Mass_Flow``, ``mass flow``) or its number.

        Raises:
            UnknownStatisticError: nothing matches; the error suggests near names.
        """
        if isinstance(value, Statistic):
            return value
        return cls.by_code(value) if isinstance(value, int) else _STATISTICS.by_name(value)


_CODES: dict[Statistic, int] = {
    Statistic.NONE: 1,
    Statistic.ABS_PRESS: 2,
    Statistic.TEMP_STREAM: 3,
    Statistic.VOL_FLOW: 4,
    Statistic.MASS_FLOW: 5,
    Statistic.GAUGE_PRESS: 6,
    Statistic.DIFF_PRESS: 7,
    Statistic.TOT_VOL: 8,
    Statistic.TOT_MASS: 9,
    Statistic.VALVE_DRIVE: 13,
    Statistic.BARO_PRESS: 15,
    Statistic.VOL_FLOW_EXT: 17,
    Statistic.REL_HUM: 25,
    Statistic.SETPT: 32,
    Statistic.ABS_PRESS_SETPT: 34,
    Statistic.VOL_FLOW_SETPT: 36,
    Statistic.MASS_FLOW_SETPT: 37,
    Statistic.GAUGE_PRESS_SETPT: 38,
    Statistic.DIFF_PRESS_SETPT: 39,
    Statistic.ABS_PRESS_SECOND: 344,
    Statistic.ABS_PRESS_SECOND_SETPT: 345,
    Statistic.GAUGE_PRESS_SECOND: 352,
    Statistic.GAUGE_PRESS_SECOND_SETPT: 353,
    Statistic.DIFF_PRESS_SECOND: 360,
    Statistic.DIFF_PRESS_SECOND_SETPT: 361,
    Statistic.FLUID_NAME: 703,
}

_CONTROLLED: dict[Statistic, Statistic] = {
    Statistic.ABS_PRESS_SETPT: Statistic.ABS_PRESS,
    Statistic.VOL_FLOW_SETPT: Statistic.VOL_FLOW,
    Statistic.MASS_FLOW_SETPT: Statistic.MASS_FLOW,
    Statistic.GAUGE_PRESS_SETPT: Statistic.GAUGE_PRESS,
    Statistic.DIFF_PRESS_SETPT: Statistic.DIFF_PRESS,
    Statistic.ABS_PRESS_SECOND_SETPT: Statistic.ABS_PRESS_SECOND,
    Statistic.GAUGE_PRESS_SECOND_SETPT: Statistic.GAUGE_PRESS_SECOND,
    Statistic.DIFF_PRESS_SECOND_SETPT: Statistic.DIFF_PRESS_SECOND,
}

# Names in ??D* tables: today's firmware spells them like the members, and 5v has its own.
_BY_NAME: dict[str, Statistic] = {statistic.value: statistic for statistic in Statistic} | {
    "flow_temp": Statistic.TEMP_STREAM,
    "stream_temp": Statistic.TEMP_STREAM,
    "volu_flow": Statistic.VOL_FLOW,
    "gas": Statistic.FLUID_NAME,
    "temperature": Statistic.TEMP_STREAM,
    "volumetric": Statistic.VOL_FLOW,
    "mass": Statistic.MASS_FLOW,
    "setpoint": Statistic.SETPT,
}

_STATISTICS = Registry(_CODES, _BY_NAME, UnknownStatisticError)
