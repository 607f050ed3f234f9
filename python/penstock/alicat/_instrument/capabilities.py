"""Which optional hardware an instrument has, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatMediumMismatchError,
    AlicatParseError,
)
from penstock.alicat.registry import Statistic

if TYPE_CHECKING:
    from penstock.alicat._devices.device import Device
    from penstock.alicat._frames.data_frame import DataFrameFormat

__all__ = ["CapabilityEvidence", "capabilities_of_columns", "probe_capabilities"]


class CapabilityEvidence(StrEnum):
    """How it is known whether an instrument has a piece of hardware."""

    STATED = "stated"
    """The user stated it (``assume_capabilities``)."""
    DATA_FRAME = "data_frame"
    """Present: the data frame has a column of it."""
    PRESENT = "present"
    """Present: the instrument reported it when asked."""
    ABSENT = "absent"
    """Absent: the instrument reported it when asked."""


Report = Mapping[Capability, CapabilityEvidence]

_SECOND_PRESSURES = (
    Statistic.ABS_PRESS_SECOND,
    Statistic.GAUGE_PRESS_SECOND,
    Statistic.DIFF_PRESS_SECOND,
)
_TOTALS = frozenset({Statistic.TOT_VOL, Statistic.TOT_MASS})


def capabilities_of_columns(
    columns: DataFrameFormat | None, stated: Capability
) -> tuple[Capability, Report]:
    """What the user states and what the data frame shows, with the evidence for each."""
    report = dict.fromkeys(stated, CapabilityEvidence.STATED)
    statistics = {field.statistic for field in columns.fields} if columns else set()
    setpoint = columns.setpoint_field if columns else None
    shown = {
        Capability.BAROMETER: Statistic.BARO_PRESS in statistics,
        Capability.SECONDARY_PRESSURE: not statistics.isdisjoint(_SECOND_PRESSURES),
        Capability.TOTALIZER: columns is not None
        and any(
            field.statistic in _TOTALS or "total" in field.name.casefold()
            for field in columns.fields
        ),
        Capability.BIDIRECTIONAL: setpoint is not None
        and setpoint.minimum is not None
        and setpoint.minimum < 0,
    }
    for capability, is_shown in shown.items():
        if is_shown:
            report[capability] = CapabilityEvidence.DATA_FRAME
    return _together(report), MappingProxyType(report)


async def probe_capabilities(device: Device) -> Report:
    """Ask an instrument for its barometer, second pressure sensor and totalizer.

    Changes nothing. Missing hardware is recorded as absent, unless the user has stated that it is
    present. An instrument cannot be asked about other hardware.

    Raises:
        AlicatError: the instrument does not answer.
    """

    async def has_any(*statistics: Statistic) -> bool:
        for statistic in statistics:
            full_scale = await device.full_scale(statistic)
            if full_scale is not None and full_scale.value > 0:
                return True
        return False

    async def counts() -> bool:
        await device.totalizer_config()
        return True

    report = dict(device.info.probe_report)
    questions = {
        Capability.BAROMETER: lambda: has_any(Statistic.BARO_PRESS),
        Capability.SECONDARY_PRESSURE: lambda: has_any(*_SECOND_PRESSURES),
        Capability.TOTALIZER: counts,
    }
    for capability, ask in questions.items():
        if report.get(capability) is CapabilityEvidence.DATA_FRAME:
            continue
        try:
            there = await ask()
        except (AlicatCommandRejectedError, AlicatParseError):
            there = False
        except (AlicatCapabilityError, AlicatMediumMismatchError):
            continue  # its firmware cannot be asked
        if there:
            report[capability] = CapabilityEvidence.PRESENT
        elif report.get(capability) is not CapabilityEvidence.STATED:
            report[capability] = CapabilityEvidence.ABSENT
    device.session.learn_capabilities(_together(report), MappingProxyType(report))
    return device.info.probe_report


def _together(report: Report) -> Capability:
    found = Capability.NONE
    for capability, evidence in report.items():
        if evidence is not CapabilityEvidence.ABSENT:
            found |= capability
    return found
