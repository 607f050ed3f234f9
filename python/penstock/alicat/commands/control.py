"""How a controller follows its setpoint: controlled quantity, ramp, deadband."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.proven_number import ProvenNumber
from penstock.alicat._instrument.setpoints import as_number, decimal_text
from penstock.alicat.commands.arguments import FROM_10V05, NUMBER, UNIT, refuse_save_alone
from penstock.alicat.commands.command import (
    CONTROLLERS,
    NUMERIC_FAMILIES,
    V8_AND_NEWER,
    Command,
    CommandContext,
    FirmwareRange,
    ReportedUnit,
    match_reply,
    parse_error,
    reply_shape,
)
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import LoopControlVariable, Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "DEADBAND_LIMIT",
    "LOOP_CONTROL_VARIABLE",
    "RAMP_OPTIONS",
    "RAMP_RATE",
    "DeadbandLimitRequest",
    "DeadbandSetting",
    "LoopControlState",
    "LoopControlVariableRequest",
    "RampOptions",
    "RampOptionsRequest",
    "RampRateRequest",
    "RampRateSetting",
    "TimeUnit",
]


@dataclass(frozen=True, slots=True)
class LoopControlVariableRequest:
    """Control this quantity; ``None`` asks."""

    variable: LoopControlVariable | Statistic | str | int | None = None


@dataclass(frozen=True, slots=True)
class LoopControlState:
    """The quantity that a controller controls."""

    unit_id: str
    variable: LoopControlVariable
    label: str
    """The name of its statistic."""


_VARIABLE = reply_shape(rb"(\d{1,3})")


def _decode_variable(
    line: bytes, request: LoopControlVariableRequest, context: CommandContext
) -> LoopControlState:
    wanted = LOOP_CONTROL_VARIABLE.wanted
    match = match_reply(_VARIABLE, line, context, wanted)
    try:
        variable = LoopControlVariable(int(match[2]))
    except ValueError:
        raise parse_error(line, context, wanted) from None
    return LoopControlState(context.unit_id, variable, variable.statistic.value)


LOOP_CONTROL_VARIABLE: Command[LoopControlVariableRequest, LoopControlState] = Command(
    name="loop_control_variable",
    token="LV",
    wanted="the quantity that it controls",
    arguments=lambda request, context: (
        ()
        if request.variable is None
        else (str(LoopControlVariable.coerce(request.variable).value),)
    ),
    decode=_decode_variable,
    device_kinds=CONTROLLERS,
    firmware=FirmwareRange(V8_AND_NEWER, first=FirmwareVersion(FirmwareFamily.V8_V9, 9, 0)),
    changes=lambda request: request.variable is not None,
    saves=lambda request: request.variable is not None,
    invalidates_format=lambda request: request.variable is not None,
)


def _known_unit(unit: Unit | None, label: str) -> tuple[ReportedUnit, ...]:
    """The unit of the setpoint in an answer. An unknown label may be a damaged one."""
    return () if unit is None else (ReportedUnit(None, label),)


class TimeUnit(IntEnum):
    """The time that a ramp's rate refers to; the value is its number on the wire."""

    MILLISECOND = 3
    SECOND = 4
    MINUTE = 5
    HOUR = 6
    DAY = 7


@dataclass(frozen=True, slots=True)
class RampRateRequest:
    """Let the setpoint change by at most ``max_ramp`` (in its own unit) per ``time_unit``.

    0 lifts the limit. ``None`` asks. The unit is proven as that of a setpoint.
    """

    max_ramp: float | ProvenNumber | None = None
    time_unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True)
class RampRateSetting:
    """The fastest change of the setpoint."""

    unit_id: str
    max_ramp: float
    """0: no limit."""
    setpoint_unit_code: int
    setpoint_unit: Unit | None
    time_unit: TimeUnit
    rate_unit_label: str
    """As the instrument writes it: ``SCCM/s``."""


_RAMP = reply_shape(NUMBER + rb"\s+(\d{1,3})\s+(\d)\s+(\S+(?: \S+)?)")


def _ramp_arguments(request: RampRateRequest, context: CommandContext) -> tuple[str, ...]:
    if request.max_ramp is None:
        if request.time_unit is not None:
            raise AlicatValidationError("time_unit=... belongs to a max_ramp: state both")
        return ()
    text = decimal_text(request.max_ramp, "max_ramp")
    if as_number(request.max_ramp) < 0:
        raise AlicatValidationError(f"max_ramp must not be negative, as {text} is")
    if request.time_unit is None:
        raise AlicatValidationError("state the time_unit that max_ramp refers to, also for 0")
    try:
        return text, str(TimeUnit(request.time_unit).value)
    except ValueError:
        names = ", ".join(unit.name for unit in TimeUnit)
        raise AlicatValidationError(
            f"time_unit must be a TimeUnit ({names}), not {request.time_unit!r}"
        ) from None


def _decode_ramp(line: bytes, request: RampRateRequest, context: CommandContext) -> RampRateSetting:
    wanted = RAMP_RATE.wanted
    match = match_reply(_RAMP, line, context, wanted)
    try:
        time_unit = TimeUnit(int(match[4]))
    except ValueError:
        raise parse_error(line, context, wanted) from None
    label = clean_unit_label(match[5].decode("ascii", "replace"))
    unit = Unit.from_label(label.rpartition("/")[0])
    return RampRateSetting(context.unit_id, float(match[2]), int(match[3]), unit, time_unit, label)


RAMP_RATE: Command[RampRateRequest, RampRateSetting] = Command(
    name="ramp_rate",
    token="SR",
    wanted="its ramp rate",
    arguments=_ramp_arguments,
    decode=_decode_ramp,
    device_kinds=CONTROLLERS,
    firmware=FirmwareRange(NUMERIC_FAMILIES, first=FirmwareVersion(FirmwareFamily.V1_V7, 7, 11)),
    changes=lambda request: request.max_ramp is not None,
    saves=lambda request: request.max_ramp is not None,
    number="max_ramp",
    reported_units=lambda request, setting: _known_unit(
        setting.setpoint_unit, setting.rate_unit_label.rpartition("/")[0]
    ),
)


@dataclass(frozen=True, slots=True)
class RampOptionsRequest:
    """Choose which changes of the setpoint the ramp rate limits: all four together, or ask."""

    up: bool | None = None
    down: bool | None = None
    to_zero: bool | None = None
    at_power_up: bool | None = None


@dataclass(frozen=True, slots=True)
class RampOptions:
    """Which changes of the setpoint the ramp rate limits."""

    unit_id: str
    up: bool
    """To a higher setpoint."""
    down: bool
    """To a lower one."""
    to_zero: bool
    at_power_up: bool
    """To the setpoint that is kept over a power cycle."""


_RAMP_OPTIONS = reply_shape(rb"([01])\s+([01])\s+([01])\s+([01])")


def _ramp_options_arguments(
    request: RampOptionsRequest, context: CommandContext
) -> tuple[str, ...]:
    stated = (request.up, request.down, request.to_zero, request.at_power_up)
    if stated == (None,) * 4:
        return ()
    if None in stated:
        raise AlicatValidationError("the four ramp options are set together: state all of them")
    return tuple(str(int(bool(option))) for option in stated)


def _decode_ramp_options(
    line: bytes, request: RampOptionsRequest, context: CommandContext
) -> RampOptions:
    match = match_reply(_RAMP_OPTIONS, line, context, RAMP_OPTIONS.wanted)
    return RampOptions(context.unit_id, *(match[group] == b"1" for group in range(2, 6)))


RAMP_OPTIONS: Command[RampOptionsRequest, RampOptions] = Command(
    name="ramp_options",
    token="LSRC",
    wanted="which changes it ramps",
    arguments=_ramp_options_arguments,
    decode=_decode_ramp_options,
    device_kinds=CONTROLLERS,
    firmware=FROM_10V05,
    changes=lambda request: request.up is not None,
    saves=lambda request: request.up is not None,
)


@dataclass(frozen=True, slots=True)
class DeadbandLimitRequest:
    """Do not correct deviations up to ``deadband``, in the unit of the controlled quantity.

    ``None`` asks. ``save`` keeps it over a power cycle. The unit is proven as that of a setpoint.
    """

    deadband: float | ProvenNumber | None = None
    save: bool | None = None


@dataclass(frozen=True, slots=True)
class DeadbandSetting:
    """The deviation that is not corrected."""

    unit_id: str
    deadband: float
    unit_code: int
    unit: Unit | None
    unit_label: str


_DEADBAND = reply_shape(NUMBER + rb"\s+" + UNIT)


def _deadband_arguments(request: DeadbandLimitRequest, context: CommandContext) -> tuple[str, ...]:
    if request.deadband is None:
        return refuse_save_alone(request.save)
    text = decimal_text(request.deadband, "deadband")
    if as_number(request.deadband) < 0:
        raise AlicatValidationError(f"deadband must not be negative, as {text} is")
    # Here the flag comes first, and is not optional.
    return str(int(bool(request.save))), text


def _decode_deadband(
    line: bytes, request: DeadbandLimitRequest, context: CommandContext
) -> DeadbandSetting:
    match = match_reply(_DEADBAND, line, context, DEADBAND_LIMIT.wanted)
    label = clean_unit_label(match[4].decode("ascii", "replace"))
    return DeadbandSetting(
        context.unit_id, float(match[2]), int(match[3]), Unit.from_label(label), label
    )


DEADBAND_LIMIT: Command[DeadbandLimitRequest, DeadbandSetting] = Command(
    name="deadband_limit",
    token="LCDB",
    wanted="its deadband",
    arguments=_deadband_arguments,
    decode=_decode_deadband,
    device_kinds=CONTROLLERS,
    firmware=FROM_10V05,
    changes=lambda request: request.deadband is not None,
    saves=lambda request: bool(request.save),
    number="deadband",
    reported_units=lambda request, setting: _known_unit(setting.unit, setting.unit_label),
)
