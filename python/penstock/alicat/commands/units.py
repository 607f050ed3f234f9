"""Engineering units and full scales of the measured quantities."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat._instrument.setpoints import FullScaleValue, parse_full_scale
from penstock.alicat.commands.arguments import FROM_10V05, whole
from penstock.alicat.commands.command import (
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    ReportedUnit,
    match_reply,
    reply_shape,
)
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "ENGINEERING_UNITS",
    "FULL_SCALE_QUERY",
    "EngineeringUnitsRequest",
    "FullScaleQueryRequest",
    "UnitSetting",
]

_LAST_UNIT_CODE = 255


@dataclass(frozen=True, slots=True)
class EngineeringUnitsRequest:
    """Show ``statistic`` in the unit of this code; ``None`` asks.

    ``apply_to_group`` changes the quantities of its group too; ``override_special_rules`` lifts
    the instrument's own restrictions.
    """

    statistic: Statistic | str | int
    unit_code: int | None = None
    apply_to_group: bool = False
    override_special_rules: bool = False


@dataclass(frozen=True, slots=True)
class UnitSetting:
    """The unit that a quantity is shown in."""

    unit_id: str
    statistic: Statistic
    unit: Unit | None
    label: str
    unit_code: int


_UNIT = reply_shape(rb"(\d{1,3})\s+(\S+(?: \S+)?)")


def _unit_arguments(request: EngineeringUnitsRequest, context: CommandContext) -> tuple[str, ...]:
    statistic = str(Statistic.coerce(request.statistic).code)
    if request.unit_code is None:
        return (statistic,)
    code = whole(request.unit_code, 0, _LAST_UNIT_CODE, "the code of a unit")
    if request.override_special_rules:
        return statistic, code, str(int(request.apply_to_group)), "1"
    if request.apply_to_group:
        return statistic, code, "1"
    return statistic, code


def _decode_unit(
    line: bytes, request: EngineeringUnitsRequest, context: CommandContext
) -> UnitSetting:
    match = match_reply(_UNIT, line, context, ENGINEERING_UNITS.wanted)
    label = clean_unit_label(match[3].decode("ascii", "replace"))
    return UnitSetting(
        context.unit_id,
        Statistic.coerce(request.statistic),
        Unit.from_label(label),
        label,
        int(match[2]),
    )


def _shown_unit(request: EngineeringUnitsRequest, setting: UnitSetting) -> tuple[ReportedUnit, ...]:
    # A requested change is not a difference.
    if request.unit_code is not None:
        return ()
    return (ReportedUnit(setting.statistic, setting.label),)


ENGINEERING_UNITS: Command[EngineeringUnitsRequest, UnitSetting] = Command(
    name="engineering_units",
    token="DCU",
    wanted="the unit of a quantity",
    arguments=_unit_arguments,
    decode=_decode_unit,
    # Before 10v05 the same letters answer with counts of the converter.
    firmware=FROM_10V05,
    changes=lambda request: request.unit_code is not None,
    saves=lambda request: request.unit_code is not None,
    reported_units=_shown_unit,
    invalidates_format=lambda request: request.unit_code is not None,
)


@dataclass(frozen=True, slots=True)
class FullScaleQueryRequest:
    """Ask for the full scale of a quantity."""

    statistic: Statistic | str | int


def _decode_full_scale(
    line: bytes, request: FullScaleQueryRequest, context: CommandContext
) -> FullScaleValue | None:
    return parse_full_scale(line, context.unit_id, Statistic.coerce(request.statistic))


FULL_SCALE_QUERY: Command[FullScaleQueryRequest, FullScaleValue | None] = Command(
    name="full_scale_query",
    token="FPF",
    wanted="its full scale",
    arguments=lambda request, context: (str(Statistic.coerce(request.statistic).code),),
    decode=_decode_full_scale,
    firmware=FirmwareRange(NUMERIC_FAMILIES),
    # Its unit need not be the displayed one: an 8v17 answered in the unit that it was built for.
)
