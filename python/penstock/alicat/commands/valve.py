"""The valves: hold, hold closed, cancel the hold, and the drive."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.alicat._frames.frame_decoder import ParsedFrame
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.commands.command import (
    CONTROLLERS,
    NUMERIC_FAMILIES,
    V8_AND_NEWER,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    match_reply,
)
from penstock.alicat.commands.polling import decode_frame

__all__ = [
    "CANCEL_VALVE_HOLD",
    "EXHAUST",
    "HOLD_VALVES",
    "HOLD_VALVES_CLOSED",
    "VALVE_DRIVE",
    "CancelValveHoldRequest",
    "ExhaustRequest",
    "HoldValvesClosedRequest",
    "HoldValvesRequest",
    "ValveDriveRequest",
    "ValveDriveState",
]

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
