"""How measurements are made: units, zero band, averaging, and reference conditions.

Standardised and normalised flow refer to the reference conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from penstock.alicat._instrument.kinds import Medium
from penstock.alicat._instrument.setpoints import FullScaleValue, decimal_text, parse_full_scale
from penstock.alicat.commands.command import (
    FLOW_KINDS,
    FROM_10V05,
    NUMBER,
    NUMERIC_FAMILIES,
    UNIT,
    Command,
    CommandContext,
    FirmwareRange,
    ReportedUnit,
    bounded,
    match_reply,
    reply_shape,
    whole,
)
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "AVERAGE_TIMING",
    "ENGINEERING_UNITS",
    "FULL_SCALE_QUERY",
    "STP_NTP_PRESSURE",
    "STP_NTP_TEMPERATURE",
    "ZERO_BAND",
    "AverageTimingRequest",
    "AverageTimingSetting",
    "EngineeringUnitsRequest",
    "FullScaleQueryRequest",
    "StpNtpMode",
    "StpNtpPressureRequest",
    "StpNtpPressureSetting",
    "StpNtpTemperatureRequest",
    "StpNtpTemperatureSetting",
    "UnitSetting",
    "ZeroBandRequest",
    "ZeroBandSetting",
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


_WIDEST_ZERO_BAND = 6.38
_LONGEST_AVERAGE_MS = 9999
_AVERAGED = (1, 2, 4, 5, 6, 7, 17, 344, 352, 360)


@dataclass(frozen=True, slots=True)
class ZeroBandRequest:
    """Show values up to ``zero_band`` percent of full scale as zero (0 to 6.38); ``None`` asks."""

    zero_band: float | None = None


@dataclass(frozen=True, slots=True)
class ZeroBandSetting:
    """Values up to ``zero_band`` percent of full scale are shown as zero."""

    unit_id: str
    zero_band: float


_ZERO_BAND = reply_shape(rb"0\s+" + NUMBER)


def _zero_band_arguments(request: ZeroBandRequest, context: CommandContext) -> tuple[str, ...]:
    if request.zero_band is None:
        return ()
    return "0", bounded(request.zero_band, 0.0, _WIDEST_ZERO_BAND, "zero_band")


def _decode_zero_band(
    line: bytes, request: ZeroBandRequest, context: CommandContext
) -> ZeroBandSetting:
    match = match_reply(_ZERO_BAND, line, context, ZERO_BAND.wanted)
    return ZeroBandSetting(context.unit_id, float(match[2]))


ZERO_BAND: Command[ZeroBandRequest, ZeroBandSetting] = Command(
    name="zero_band",
    token="DCZ",
    wanted="its zero band",
    arguments=_zero_band_arguments,
    decode=_decode_zero_band,
    firmware=FROM_10V05,
    changes=lambda request: request.zero_band is not None,
    saves=lambda request: request.zero_band is not None,
)


@dataclass(frozen=True, slots=True)
class AverageTimingRequest:
    """Average the statistic with this number over ``averaging_ms`` (0 to 9999); ``None`` asks.

    Numbers that can be averaged: 1 (all), 2, 4, 5, 6, 7, 17, 344, 352, 360.
    """

    statistic_code: int
    averaging_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AverageTimingSetting:
    """The time over which a statistic is averaged."""

    unit_id: str
    statistic_code: int
    averaging_ms: int

    @property
    def statistic(self) -> Statistic | None:
        """The statistic; ``None`` for a number that is not listed here."""
        return Statistic.from_code(self.statistic_code)


# The manual shows the statistic's number before the time; instruments were seen to leave it out.
_AVERAGE = reply_shape(rb"(?:(\d{1,3})\s+)?(\d{1,4})")


def _average_arguments(request: AverageTimingRequest, context: CommandContext) -> tuple[str, ...]:
    code = request.statistic_code
    if code not in _AVERAGED:
        raise AlicatValidationError(
            f"statistic {code!r} cannot be averaged; choose one of {', '.join(map(str, _AVERAGED))}"
        )
    if request.averaging_ms is None:
        return (str(int(code)),)
    return str(int(code)), whole(request.averaging_ms, 0, _LONGEST_AVERAGE_MS, "averaging_ms")


def _decode_average(
    line: bytes, request: AverageTimingRequest, context: CommandContext
) -> AverageTimingSetting:
    match = match_reply(_AVERAGE, line, context, AVERAGE_TIMING.wanted)
    return AverageTimingSetting(context.unit_id, request.statistic_code, int(match[3]))


AVERAGE_TIMING: Command[AverageTimingRequest, AverageTimingSetting] = Command(
    name="average_timing",
    token="DCA",
    wanted="the averaging time of a statistic",
    arguments=_average_arguments,
    decode=_decode_average,
    firmware=FROM_10V05,
    changes=lambda request: request.averaging_ms is not None,
    saves=lambda request: request.averaging_ms is not None,
)


class StpNtpMode(StrEnum):
    """Which conditions: those of standardised flow (STP) or of normalised flow (NTP)."""

    STP = "S"
    NTP = "N"


@dataclass(frozen=True, slots=True)
class StpNtpPressureRequest:
    """Refer to this pressure; ``None`` asks. Without ``unit_code`` the unit stays."""

    mode: StpNtpMode
    pressure: float | None = None
    unit_code: int | None = None


@dataclass(frozen=True, slots=True)
class StpNtpPressureSetting:
    """The pressure that standardised or normalised flow refers to."""

    unit_id: str
    mode: StpNtpMode
    pressure: float
    unit_code: int
    unit: Unit | None
    unit_label: str


@dataclass(frozen=True, slots=True)
class StpNtpTemperatureRequest:
    """Refer to this temperature; ``None`` asks. Without ``unit_code`` the unit stays."""

    mode: StpNtpMode
    temperature: float | None = None
    unit_code: int | None = None


@dataclass(frozen=True, slots=True)
class StpNtpTemperatureSetting:
    """The temperature that standardised or normalised flow refers to."""

    unit_id: str
    mode: StpNtpMode
    temperature: float
    unit_code: int
    unit: Unit | None
    unit_label: str


_CONDITION = reply_shape(NUMBER + rb"\s+" + UNIT)
_KEEP_UNIT = "0"


class _Condition(Protocol):
    @property
    def mode(self) -> StpNtpMode: ...
    @property
    def unit_code(self) -> int | None: ...


C = TypeVar("C", bound=_Condition)
S = TypeVar("S", StpNtpPressureSetting, StpNtpTemperatureSetting)


def _condition_arguments(request: _Condition, value: float | None) -> tuple[str, ...]:
    mode = StpNtpMode(request.mode).value
    if value is None:
        if request.unit_code is not None:
            raise AlicatValidationError("unit_code=... belongs to a value: state both")
        return (mode,)
    unit = _KEEP_UNIT
    if request.unit_code is not None:
        unit = whole(request.unit_code, 0, _LAST_UNIT_CODE, "unit_code")
    return mode, unit, decimal_text(value, "a standard condition")


def _condition_decoder(
    setting: type[S], wanted: str
) -> Callable[[bytes, _Condition, CommandContext], S]:
    def decode(line: bytes, request: _Condition, context: CommandContext) -> S:
        match = match_reply(_CONDITION, line, context, wanted)
        label = clean_unit_label(match[4].decode("ascii", "replace"))
        return setting(
            context.unit_id,
            StpNtpMode(request.mode),
            float(match[2]),
            int(match[3]),
            Unit.from_label(label),
            label,
        )

    return decode


def _condition_command(
    name: str, token: str, wanted: str, value_of: Callable[[C], float | None], setting: type[S]
) -> Command[C, S]:
    """The command of one condition; ``value_of`` is what a request sets it to."""

    def sets(request: C) -> bool:
        return value_of(request) is not None

    return Command(
        name=name,
        token=token,
        wanted=wanted,
        arguments=lambda request, context: _condition_arguments(request, value_of(request)),
        decode=_condition_decoder(setting, wanted),
        device_kinds=FLOW_KINDS,
        media=Medium.GAS,
        firmware=FROM_10V05,
        changes=sets,
        saves=sets,
    )


STP_NTP_PRESSURE: Command[StpNtpPressureRequest, StpNtpPressureSetting] = _condition_command(
    "stp_ntp_pressure",
    "DCFRP",
    "its reference pressure",
    lambda request: request.pressure,
    StpNtpPressureSetting,
)
STP_NTP_TEMPERATURE: Command[StpNtpTemperatureRequest, StpNtpTemperatureSetting] = (
    _condition_command(
        "stp_ntp_temperature",
        "DCFRT",
        "its reference temperature",
        lambda request: request.temperature,
        StpNtpTemperatureSetting,
    )
)
