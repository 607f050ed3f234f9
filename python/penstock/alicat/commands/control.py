"""How a controller is told what to do: setpoint, control loop, valves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.kinds import Capability, FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat._instrument.setpoints import (
    ProvenNumber,
    SetpointState,
    as_number,
    decimal_text,
    parse_setpoint_reply,
)
from penstock.alicat.commands.command import (
    CONTROLLERS,
    FROM_10V05,
    NUMBER,
    NUMERIC_FAMILIES,
    UNIT,
    V8_AND_NEWER,
    Command,
    CommandContext,
    FirmwareRange,
    ReportedUnit,
    always,
    match_reply,
    parse_error,
    refuse_save_alone,
    reply_shape,
    saving,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import LoopControlVariable, Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "CANCEL_VALVE_HOLD",
    "DEADBAND_LIMIT",
    "EXHAUST",
    "HOLD_VALVES",
    "HOLD_VALVES_CLOSED",
    "LOOP_CONTROL_VARIABLE",
    "RAMP_OPTIONS",
    "RAMP_RATE",
    "SETPOINT",
    "SETPOINT_LEGACY",
    "SETPOINT_SOURCE",
    "VALVE_DRIVE",
    "CancelValveHoldRequest",
    "DeadbandLimitRequest",
    "DeadbandSetting",
    "ExhaustRequest",
    "HoldValvesClosedRequest",
    "HoldValvesRequest",
    "LoopControlState",
    "LoopControlVariableRequest",
    "RampOptions",
    "RampOptionsRequest",
    "RampRateRequest",
    "RampRateSetting",
    "SetpointLegacyRequest",
    "SetpointRequest",
    "SetpointSourceRequest",
    "SetpointSourceResult",
    "TimeUnit",
    "ValveDriveRequest",
    "ValveDriveState",
]


@dataclass(frozen=True, slots=True)
class SetpointRequest:
    """Set the setpoint to ``value``; ``None`` asks.

    A number without a proof is in the unit that was in force when the instrument was opened. The
    session proves that unit before it sends the number; zero needs no proof.
    """

    value: float | ProvenNumber | None = None


def _value_argument(
    request: SetpointRequest | SetpointLegacyRequest, context: CommandContext
) -> tuple[str, ...]:
    return () if request.value is None else (decimal_text(request.value),)


def _decode_setpoint(
    line: bytes, request: SetpointRequest, context: CommandContext
) -> SetpointState:
    state = parse_setpoint_reply(line, context.unit_id)
    if state.unit is None:
        # An unknown label may be a damaged one: it is accepted only if the data frame's table has
        # it too.
        columns = context.data_frame_format
        field = columns.setpoint_field if columns is not None else None
        if field is None or field.unit_label != state.unit_label:
            refuse_line(line, context.unit_id, wanted="its setpoint in a known unit")
    return state


SETPOINT: Command[SetpointRequest, SetpointState] = Command(
    name="setpoint",
    token="LS",
    wanted="its setpoint",
    arguments=_value_argument,
    decode=_decode_setpoint,
    changes=lambda request: request.value is not None,
    event=EventKind.SETPOINT,
    device_kinds=CONTROLLERS,
    number="value",
    # On 1v to 7v every command that begins with L locks the front panel.
    firmware=FirmwareRange(V8_AND_NEWER, first=FirmwareVersion(FirmwareFamily.V8_V9, 9, 0)),
    reported_units=lambda request, state: (ReportedUnit(None, state.unit_label or ""),),
)


@dataclass(frozen=True, slots=True)
class SetpointLegacyRequest:
    """Set the setpoint to ``value``; its unit is proven as that of a :class:`SetpointRequest`."""

    value: float | ProvenNumber


SETPOINT_LEGACY: Command[SetpointLegacyRequest, ParsedFrame] = Command(
    name="setpoint_legacy",
    token="S",
    wanted="a data frame with its setpoint",
    arguments=_value_argument,
    decode=decode_frame,
    changes=always,
    event=EventKind.SETPOINT,
    device_kinds=CONTROLLERS,
    number="value",
    firmware=FirmwareRange(
        frozenset({FirmwareFamily.V1_V7, FirmwareFamily.V8_V9, FirmwareFamily.BASIS}),
        last=FirmwareVersion(FirmwareFamily.V8_V9, 8, 99),
    ),
)


@dataclass(frozen=True, slots=True)
class SetpointSourceRequest:
    """Take the setpoint from ``mode``.

    ``"S"`` is the serial line or the panel, ``"A"`` the analogue input, ``"U"`` the serial line or
    the panel, not kept after a power cycle. ``None`` asks. ``save`` keeps the mode over a power
    cycle.
    """

    mode: str | None = None
    save: bool | None = None


@dataclass(frozen=True, slots=True)
class SetpointSourceResult:
    """Where a controller takes its setpoint from: ``"S"``, ``"A"`` or ``"U"``."""

    unit_id: str
    mode: str


_SOURCE = reply_shape(rb"([SAU])")


def _source_arguments(request: SetpointSourceRequest, context: CommandContext) -> tuple[str, ...]:
    if request.mode is None:
        return refuse_save_alone(request.save)
    mode = request.mode.upper()
    if mode not in ("S", "A", "U"):
        raise AlicatValidationError(
            f"{request.mode!r} is not a setpoint source: choose 'S' (serial), 'A' (analogue) or "
            "'U' (serial, not kept after a power cycle)"
        )
    return (mode, *saving(request.save))


def _decode_source(
    line: bytes, request: SetpointSourceRequest, context: CommandContext
) -> SetpointSourceResult:
    match = match_reply(_SOURCE, line, context, "its setpoint source")
    return SetpointSourceResult(context.unit_id, match[2].decode())


SETPOINT_SOURCE: Command[SetpointSourceRequest, SetpointSourceResult] = Command(
    name="setpoint_source",
    token="LSS",
    wanted="its setpoint source",
    arguments=_source_arguments,
    decode=_decode_source,
    device_kinds=CONTROLLERS,
    firmware=FROM_10V05,
    changes=lambda request: request.mode is not None,
    saves=lambda request: bool(request.save),
)


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

    0 removes the limit. ``None`` asks. The unit is proven as that of a setpoint.
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
        raise AlicatValidationError("state the time_unit that max_ramp refers to, even for 0")
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


_HOLDING = FirmwareRange(NUMERIC_FAMILIES, first=FirmwareVersion(FirmwareFamily.V1_V7, 5, 7))


@dataclass(frozen=True, slots=True)
class HoldValvesRequest:
    """Keep the valves where they are."""


HOLD_VALVES: Command[HoldValvesRequest, ParsedFrame] = Command(
    name="hold_valves",
    token="HP",
    wanted="a data frame with its valves held",
    decode=decode_frame,
    device_kinds=CONTROLLERS,
    firmware=_HOLDING,
    changes=always,
)


@dataclass(frozen=True, slots=True)
class HoldValvesClosedRequest:
    """Close the valves and keep them closed, whatever the setpoint."""

    confirm: bool = False


HOLD_VALVES_CLOSED: Command[HoldValvesClosedRequest, ParsedFrame] = Command(
    name="hold_valves_closed",
    token="HC",
    wanted="a data frame with its valves held",
    decode=decode_frame,
    device_kinds=CONTROLLERS,
    firmware=_HOLDING,
    changes=always,
    confirm=lambda request: (
        "" if request.confirm else "it closes the valves and stops what flows through them"
    ),
)


@dataclass(frozen=True, slots=True)
class CancelValveHoldRequest:
    """Let the valves follow the setpoint again."""


CANCEL_VALVE_HOLD: Command[CancelValveHoldRequest, ParsedFrame] = Command(
    name="cancel_valve_hold",
    token="C",
    wanted="a data frame with its valves let go",
    decode=decode_frame,
    device_kinds=CONTROLLERS,
    firmware=FirmwareRange(NUMERIC_FAMILIES | {FirmwareFamily.BASIS}),
    changes=always,
)


@dataclass(frozen=True, slots=True)
class ExhaustRequest:
    """Open the exhaust valve of a controller with two valves, until the hold is cancelled."""

    confirm: bool = False


EXHAUST: Command[ExhaustRequest, ParsedFrame] = Command(
    name="exhaust",
    token="E",
    wanted="a data frame with its exhaust valve open",
    decode=decode_frame,
    device_kinds=CONTROLLERS,
    required_capabilities=Capability.MULTI_VALVE,
    firmware=_HOLDING,
    changes=always,
    confirm=lambda request: (
        "" if request.confirm else "it lets out what is held behind the exhaust valve"
    ),
)


@dataclass(frozen=True, slots=True)
class ValveDriveRequest:
    """Ask how far the valves are driven."""


@dataclass(frozen=True, slots=True)
class ValveDriveState:
    """How far each valve is driven, in percent. Valves that are not fitted show 0."""

    unit_id: str
    valves: tuple[float, ...]


# Four values, also on instruments with one valve.
_DRIVE = re.compile(rb"([A-Z])((?:\s+[+-]?\d+\.\d+){1,4})$")


def _decode_drive(
    line: bytes, request: ValveDriveRequest, context: CommandContext
) -> ValveDriveState:
    match = match_reply(_DRIVE, line, context, VALVE_DRIVE.wanted)
    return ValveDriveState(context.unit_id, tuple(float(value) for value in match[2].split()))


VALVE_DRIVE: Command[ValveDriveRequest, ValveDriveState] = Command(
    name="valve_drive",
    token="VD",
    wanted="the drive of its valves",
    decode=_decode_drive,
    device_kinds=CONTROLLERS,
    firmware=FirmwareRange(V8_AND_NEWER, first=FirmwareVersion(FirmwareFamily.V8_V9, 8, 18)),
)
