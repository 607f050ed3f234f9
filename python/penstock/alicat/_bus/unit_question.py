"""The question that detects a change of units at the panel.

Frames carry no units, so the unit is requested at intervals.
"""

from __future__ import annotations

from typing import Any

from penstock.alicat._frames.format_in_force import FormatInForce
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat.commands.command import Command
from penstock.alicat.commands.setpoint import SETPOINT, SetpointRequest
from penstock.alicat.commands.units import ENGINEERING_UNITS, EngineeringUnitsRequest
from penstock.alicat.registry import Statistic

__all__ = ["unit_question"]

_CHECKED_STATISTICS = (
    Statistic.MASS_FLOW,
    Statistic.VOL_FLOW,
    Statistic.GAUGE_PRESS,
    Statistic.ABS_PRESS,
    Statistic.DIFF_PRESS,
)


def unit_question(
    info: DeviceInfo, in_force: FormatInForce
) -> tuple[Command[Any, Any], object] | None:
    """A command and a request whose answer carries a unit; ``None`` if the firmware has none.

    The setpoint's unit is the one that matters most, so a controller is asked for its setpoint.
    """
    if info.kind.is_controller and info.firmware.has_modern_setpoint:
        return SETPOINT, SetpointRequest()
    if info.firmware in ENGINEERING_UNITS.firmware:
        for statistic in _CHECKED_STATISTICS:
            if in_force.field_of(statistic):
                return ENGINEERING_UNITS, EngineeringUnitsRequest(statistic)
    return None
