"""What an analogue output shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.commands.arguments import FROM_10V05, UNIT, whole
from penstock.alicat.commands.command import Command, CommandContext, match_reply, reply_shape
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "ANALOG_OUTPUT_SOURCE",
    "AnalogOutputChannel",
    "AnalogOutputSourceRequest",
    "AnalogOutputSourceSetting",
]

_LAST_STATISTIC = 999
_LAST_UNIT_CODE = 255


class AnalogOutputChannel(IntEnum):
    """Which of the outputs; the value is its number on the wire."""

    PRIMARY = 0
    SECONDARY = 1


@dataclass(frozen=True, slots=True)
class AnalogOutputSourceRequest:
    """Show statistic ``value`` at the output (0: its lowest level, 1: its highest); ``None`` asks.

    ``unit_code`` is the unit of the shown quantity; without it, the unit stays.
    """

    channel: AnalogOutputChannel
    value: int | None = None
    unit_code: int | None = None


@dataclass(frozen=True, slots=True)
class AnalogOutputSourceSetting:
    """What an output shows."""

    unit_id: str
    channel: AnalogOutputChannel
    value: int
    """The number of a statistic; 0 and 1 are the lowest and the highest level."""
    unit_code: int
    unit: Unit | None
    unit_label: str


_SOURCE = reply_shape(rb"(\d{1,3})\s+" + UNIT)


def _arguments(request: AnalogOutputSourceRequest, context: CommandContext) -> tuple[str, ...]:
    channel = str(AnalogOutputChannel(request.channel).value)
    if request.value is None:
        if request.unit_code is not None:
            raise AlicatValidationError("unit_code=... belongs to a value: state both")
        return (channel,)
    value = whole(request.value, 0, _LAST_STATISTIC, "the number of a statistic")
    if request.unit_code is None:
        return channel, value
    return channel, value, whole(request.unit_code, 0, _LAST_UNIT_CODE, "unit_code")


def _decode(
    line: bytes, request: AnalogOutputSourceRequest, context: CommandContext
) -> AnalogOutputSourceSetting:
    match = match_reply(_SOURCE, line, context, ANALOG_OUTPUT_SOURCE.wanted)
    label = clean_unit_label(match[4].decode("ascii", "replace"))
    return AnalogOutputSourceSetting(
        context.unit_id,
        AnalogOutputChannel(request.channel),
        int(match[2]),
        int(match[3]),
        Unit.from_label(label),
        label,
    )


ANALOG_OUTPUT_SOURCE: Command[AnalogOutputSourceRequest, AnalogOutputSourceSetting] = Command(
    name="analog_output_source",
    token="ASOCV",
    wanted="what its analogue output shows",
    arguments=_arguments,
    decode=_decode,
    required_capabilities=Capability.ANALOG_OUTPUT,
    firmware=FROM_10V05,
    changes=lambda request: request.value is not None,
    saves=lambda request: request.value is not None,
)
