"""Who an instrument is, and how it writes its data frame."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from penstock.alicat._frames.data_frame import (
    DataFrameFormat,
    is_format_row,
    is_last_format_row,
    parse_data_frame_format,
)
from penstock.alicat._instrument.firmware import FirmwareVersion
from penstock.alicat._instrument.identity import (
    ManufacturingInfo,
    is_last_manufacturing_row,
    is_manufacturing_row,
    parse_manufacturing_info,
    parse_version_line,
)
from penstock.alicat.commands.command import (
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    TableCommand,
)

__all__ = [
    "DATA_FRAME_FORMAT_QUERY",
    "MANUFACTURING_INFO",
    "VE_QUERY",
    "DataFrameFormatRequest",
    "ManufacturingInfoRequest",
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
    return VeResult(context.unit_id, *parse_version_line(line, context.unit_id))


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
