"""The panel: a blinking display, which shows where an instrument is, and locked buttons."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat._frames.frame_decoder import ParsedFrame
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.commands.arguments import decode_flag, whole
from penstock.alicat.commands.command import (
    V8_AND_NEWER,
    Command,
    CommandContext,
    FirmwareRange,
    always,
)
from penstock.alicat.commands.polling import decode_frame

__all__ = [
    "BLINK_DISPLAY",
    "LOCK_DISPLAY",
    "UNLOCK_DISPLAY",
    "BlinkDisplayRequest",
    "BlinkDisplayState",
    "LockDisplayRequest",
    "UnlockDisplayRequest",
]

_LONGEST_BLINKING_S = 86_400


@dataclass(frozen=True, slots=True)
class BlinkDisplayRequest:
    """Blink for this number of seconds; -1 until it is stopped, 0 stops, ``None`` asks."""

    duration_s: int | None = None


@dataclass(frozen=True, slots=True)
class BlinkDisplayState:
    """Whether the display blinks."""

    unit_id: str
    flashing: bool


def _blink_arguments(request: BlinkDisplayRequest, context: CommandContext) -> tuple[str, ...]:
    if request.duration_s is None:
        return ()
    return (whole(request.duration_s, -1, _LONGEST_BLINKING_S, "duration_s"),)


def _decode_blinking(
    line: bytes, request: BlinkDisplayRequest, context: CommandContext
) -> BlinkDisplayState:
    flashing = decode_flag(line, context, BLINK_DISPLAY.wanted)
    return BlinkDisplayState(context.unit_id, flashing)


BLINK_DISPLAY: Command[BlinkDisplayRequest, BlinkDisplayState] = Command(
    name="blink_display",
    token="FFP",
    wanted="whether its display blinks",
    arguments=_blink_arguments,
    decode=_decode_blinking,
    required_capabilities=Capability.DISPLAY,
    firmware=FirmwareRange(V8_AND_NEWER, first=FirmwareVersion(FirmwareFamily.V8_V9, 8, 28)),
    changes=lambda request: request.duration_s is not None,
)


@dataclass(frozen=True, slots=True)
class LockDisplayRequest:
    """Lock the buttons."""


LOCK_DISPLAY: Command[LockDisplayRequest, ParsedFrame] = Command(
    name="lock_display",
    token="L",
    wanted="a data frame with its panel locked",
    decode=decode_frame,
    required_capabilities=Capability.DISPLAY,
    changes=always,
)


@dataclass(frozen=True, slots=True)
class UnlockDisplayRequest:
    """Unlock the buttons."""


# Open to every instrument: on 1v to 7v a stray command that begins with L locks the panel.
UNLOCK_DISPLAY: Command[UnlockDisplayRequest, ParsedFrame] = Command(
    name="unlock_display",
    token="U",
    wanted="a data frame with its panel unlocked",
    decode=decode_frame,
    changes=always,
)
