"""Who an instrument is, how it talks, and what its panel and analogue outputs show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from functools import lru_cache
from typing import Final

from penstock.alicat._instrument.data_frame import (
    DataFrameFormat,
    is_format_row,
    is_last_format_row,
    parse_data_frame_format,
)
from penstock.alicat._instrument.identity import (
    ManufacturingInfo,
    is_last_manufacturing_row,
    is_manufacturing_row,
    parse_manufacturing_info,
    parse_version_line,
)
from penstock.alicat._instrument.kinds import Capability, FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat.commands.command import (
    FROM_10V05,
    NUMERIC_FAMILIES,
    UNIT,
    V8_AND_NEWER,
    V10_ONLY,
    Command,
    CommandContext,
    FirmwareRange,
    TableCommand,
    always,
    decode_flag,
    match_reply,
    parse_error,
    reply_shape,
    whole,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "ANALOG_OUTPUT_SOURCE",
    "BAUD_RATE",
    "BLINK_DISPLAY",
    "DATA_FRAME_FORMAT_QUERY",
    "LOCK_DISPLAY",
    "MANUFACTURING_INFO",
    "UNLOCK_DISPLAY",
    "VE_QUERY",
    "AnalogOutputChannel",
    "AnalogOutputSourceRequest",
    "AnalogOutputSourceSetting",
    "BaudRateRequest",
    "BlinkDisplayRequest",
    "BlinkDisplayState",
    "DataFrameFormatRequest",
    "LockDisplayRequest",
    "ManufacturingInfoRequest",
    "UnlockDisplayRequest",
    "VeRequest",
    "VeResult",
]


@dataclass(frozen=True, slots=True)
class VeRequest:
    """Ask for the firmware version."""


@dataclass(frozen=True, slots=True)
class VeResult:
    """The firmware, as the instrument spells it and as a version, and the day it was built."""

    unit_id: str
    software: str
    firmware: FirmwareVersion
    firmware_date: date | None


def _decode_version(line: bytes, request: VeRequest, context: CommandContext) -> VeResult:
    return _version_of(line, context.unit_id)


# A unit answers with the same line whenever it is asked.
@lru_cache(maxsize=256)
def _version_of(line: bytes, unit_id: str) -> VeResult:
    return VeResult(unit_id, *parse_version_line(line, unit_id))


VE_QUERY: Command[VeRequest, VeResult] = Command(
    name="ve_query",
    token="VE",
    wanted="its firmware version",
    decode=_decode_version,
    firmware=FirmwareRange(NUMERIC_FAMILIES),
)


@dataclass(frozen=True, slots=True)
class ManufacturingInfoRequest:
    """Ask for the manufacturing table."""


MANUFACTURING_INFO: TableCommand[ManufacturingInfoRequest, ManufacturingInfo] = TableCommand(
    name="manufacturing_info",
    token="??M*",
    wanted="a row of its manufacturing table",
    is_row=is_manufacturing_row,
    is_last_row=is_last_manufacturing_row,
    decode_rows=lambda rows, context: parse_manufacturing_info(rows, context.unit_id),
)


@dataclass(frozen=True, slots=True)
class DataFrameFormatRequest:
    """Ask for the table of the data frame's columns."""


DATA_FRAME_FORMAT_QUERY: TableCommand[DataFrameFormatRequest, DataFrameFormat] = TableCommand(
    name="data_frame_format_query",
    token="??D*",
    wanted="a row of its data frame table",
    is_row=is_format_row,
    is_last_row=is_last_format_row,
    decode_rows=lambda rows, context: parse_data_frame_format(rows),
)


BAUD_RATES: Final = (2400, 9600, 19_200, 38_400, 57_600, 115_200)
#: BASIS instruments number theirs, from 0.
_BASIS_RATES: Final = (4800, 9600, 19_200, 38_400, 57_600, 115_200)


@dataclass(frozen=True, slots=True)
class BaudRateRequest:
    """Use ``baudrate`` from now on. Everything on the line must follow."""

    baudrate: int
    confirm: bool = False


_RATE = reply_shape(rb"(?:NCB\s+)?(\d{1,6})")


def _baud_rate_arguments(request: BaudRateRequest, context: CommandContext) -> tuple[str, ...]:
    is_basis = context.firmware.family is FirmwareFamily.BASIS
    rates = _BASIS_RATES if is_basis else BAUD_RATES
    if request.baudrate not in rates:
        raise AlicatValidationError(
            f"an instrument cannot use {request.baudrate!r} baud: choose one of "
            f"{', '.join(map(str, rates))}"
        )
    return (str(rates.index(request.baudrate) if is_basis else request.baudrate),)


def _decode_baud_rate(line: bytes, request: BaudRateRequest, context: CommandContext) -> int:
    wanted = BAUD_RATE.wanted
    match = match_reply(_RATE, line, context, wanted)
    if match[2].decode() != _baud_rate_arguments(request, context)[0]:
        raise parse_error(line, context, wanted)
    return request.baudrate


BAUD_RATE: Command[BaudRateRequest, int] = Command(
    name="baud_rate",
    token="NCB",
    wanted="its new baud rate",
    arguments=_baud_rate_arguments,
    decode=_decode_baud_rate,
    firmware=FirmwareRange(
        V10_ONLY | {FirmwareFamily.BASIS}, first=FirmwareVersion(FirmwareFamily.V10, 10, 5)
    ),
    changes=always,
    saves=always,
    confirm=lambda request: (
        "" if request.confirm else "nothing else on the line can be asked until it follows"
    ),
)


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

    @property
    def statistic(self) -> Statistic | None:
        """What it shows; ``None`` for the two levels, and for a number that is not listed here."""
        return Statistic.from_code(self.value) if self.value > 1 else None


_SOURCE = reply_shape(rb"(\d{1,3})\s+" + UNIT)


def _output_arguments(
    request: AnalogOutputSourceRequest, context: CommandContext
) -> tuple[str, ...]:
    channel = str(AnalogOutputChannel(request.channel).value)
    if request.value is None:
        if request.unit_code is not None:
            raise AlicatValidationError("unit_code=... belongs to a value: state both")
        return (channel,)
    value = whole(request.value, 0, _LAST_STATISTIC, "the number of a statistic")
    if request.unit_code is None:
        return channel, value
    return channel, value, whole(request.unit_code, 0, _LAST_UNIT_CODE, "unit_code")


def _decode_output(
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
    arguments=_output_arguments,
    decode=_decode_output,
    required_capabilities=Capability.ANALOG_OUTPUT,
    firmware=FROM_10V05,
    changes=lambda request: request.value is not None,
    saves=lambda request: request.value is not None,
)
