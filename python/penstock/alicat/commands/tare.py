"""Taring: the present readings of the sensors become zero.

An instrument cannot detect whether gas flows or a line is vented, so the caller makes sure.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.kinds import Capability, DeviceKind
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat.commands.command import (
    CONTROLLERS,
    FLOW_KINDS,
    FROM_10V05,
    NUMBER,
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    bounded,
    decode_flag,
    match_reply,
    reply_shape,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError

__all__ = [
    "AUTO_TARE",
    "POWER_UP_TARE",
    "TARE_ABSOLUTE_PRESSURE",
    "TARE_FLOW",
    "TARE_GAUGE_PRESSURE",
    "AutoTareRequest",
    "AutoTareState",
    "PowerUpTareRequest",
    "PowerUpTareState",
    "TareAbsolutePressureRequest",
    "TareFlowRequest",
    "TareGaugePressureRequest",
]

_KNOWN_KINDS = frozenset(DeviceKind) - {DeviceKind.UNKNOWN}
_TARING = FirmwareRange(NUMERIC_FAMILIES)


@dataclass(frozen=True, slots=True)
class TareFlowRequest:
    """Tare: the present flow becomes zero. Nothing may flow."""


TARE_FLOW: Command[TareFlowRequest, ParsedFrame] = Command(
    name="tare_flow",
    token="T",
    wanted="a data frame after the tare",
    decode=decode_frame,
    device_kinds=FLOW_KINDS,
    firmware=_TARING,
    changes=always,
    event=EventKind.TARE,
)


@dataclass(frozen=True, slots=True)
class TareGaugePressureRequest:
    """Tare: the present gauge pressure becomes zero. The line must be vented."""


TARE_GAUGE_PRESSURE: Command[TareGaugePressureRequest, ParsedFrame] = Command(
    name="tare_gauge_pressure",
    token="TP",
    wanted="a data frame after the tare",
    decode=decode_frame,
    device_kinds=_KNOWN_KINDS,
    firmware=_TARING,
    changes=always,
    event=EventKind.TARE,
)


@dataclass(frozen=True, slots=True)
class TareAbsolutePressureRequest:
    """Set the absolute pressure to what the barometer shows. The line must be vented."""


TARE_ABSOLUTE_PRESSURE: Command[TareAbsolutePressureRequest, ParsedFrame] = Command(
    name="tare_absolute_pressure",
    token="PC",
    wanted="a data frame after the tare",
    decode=decode_frame,
    device_kinds=_KNOWN_KINDS,
    required_capabilities=Capability.TAREABLE_ABSOLUTE_PRESSURE,
    firmware=_TARING,
    changes=always,
    event=EventKind.TARE,
)


@dataclass(frozen=True, slots=True)
class AutoTareRequest:
    """Tare after the setpoint was zero for ``delay_s`` (0.1 to 25.5 s). ``None`` asks."""

    enable: bool | None = None
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class AutoTareState:
    """Whether a controller tares by itself while its setpoint is zero, and after how long."""

    unit_id: str
    enabled: bool
    delay_s: float


_AUTO_TARE = reply_shape(rb"([01])\s+" + NUMBER)


def _auto_tare_arguments(request: AutoTareRequest, context: CommandContext) -> tuple[str, ...]:
    if request.enable is None:
        if request.delay_s is not None:
            raise AlicatValidationError("delay_s=... belongs to enable=True: state both")
        return ()
    if not request.enable:
        # The instrument rejects a 0 with a delay.
        return ("0",)
    if request.delay_s is None:
        raise AlicatValidationError("state the delay_s after which the instrument tares")
    return "1", bounded(request.delay_s, 0.1, 25.5, "delay_s")


def _decode_auto_tare(
    line: bytes, request: AutoTareRequest, context: CommandContext
) -> AutoTareState:
    match = match_reply(_AUTO_TARE, line, context, AUTO_TARE.wanted)
    return AutoTareState(context.unit_id, match[2] == b"1", float(match[3]))


AUTO_TARE: Command[AutoTareRequest, AutoTareState] = Command(
    name="auto_tare",
    token="ZCA",
    wanted="its automatic tare",
    arguments=_auto_tare_arguments,
    decode=_decode_auto_tare,
    device_kinds=CONTROLLERS,
    firmware=FROM_10V05,
    changes=lambda request: request.enable is not None,
    saves=lambda request: request.enable is not None,
)


@dataclass(frozen=True, slots=True)
class PowerUpTareRequest:
    """Tare when the instrument is switched on; ``None`` asks."""

    enable: bool | None = None


@dataclass(frozen=True, slots=True)
class PowerUpTareState:
    """Whether an instrument tares when it is switched on."""

    unit_id: str
    enabled: bool


def _decode_power_up(
    line: bytes, request: PowerUpTareRequest, context: CommandContext
) -> PowerUpTareState:
    enabled = decode_flag(line, context, POWER_UP_TARE.wanted)
    return PowerUpTareState(context.unit_id, enabled)


POWER_UP_TARE: Command[PowerUpTareRequest, PowerUpTareState] = Command(
    name="power_up_tare",
    token="ZCP",
    wanted="its tare at power-up",
    arguments=lambda request, context: (
        () if request.enable is None else (str(int(request.enable)),)
    ),
    decode=_decode_power_up,
    firmware=FROM_10V05,
    changes=lambda request: request.enable is not None,
    saves=lambda request: request.enable is not None,
)
