"""The setpoint, and where a controller takes it from."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._frames.frame_decoder import ParsedFrame
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.proven_number import ProvenNumber
from penstock.alicat._instrument.setpoints import SetpointState, decimal_text, parse_setpoint_reply
from penstock.alicat.commands.arguments import FROM_10V05, refuse_save_alone, saving
from penstock.alicat.commands.command import (
    CONTROLLERS,
    V8_AND_NEWER,
    Command,
    CommandContext,
    FirmwareRange,
    ReportedUnit,
    always,
    match_reply,
    reply_shape,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError

__all__ = [
    "SETPOINT",
    "SETPOINT_LEGACY",
    "SETPOINT_SOURCE",
    "SetpointLegacyRequest",
    "SetpointRequest",
    "SetpointSourceRequest",
    "SetpointSourceResult",
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
    the panel, not kept over a power cycle. ``None`` asks. ``save`` keeps the mode over a power
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
            "'U' (serial, not kept over a power cycle)"
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
