"""Reads the columns of a data frame until they are proven.

Neither the table (``??D*``) nor a frame has a checksum, and a frame carries no units. So two things
can make a table false: a damaged byte, and a change of the unit at the panel between the table and
the frame that proves it. Three properties of the protocol help:

- *A second reading.* A table is accepted when two readings of it are equal and a frame between them
  fits. Damage does not repeat itself, and a change of the unit makes the two differ.
- *Redundancy in one reading.* A row states its quantity twice (``005``, ``Mass Flow``), and a frame
  shows widths and decimals of every column. If all of it agrees and every unit is known, no single
  damaged byte can have produced the table. At opening this is enough, because a table takes 0.8 s
  at 19200 baud; anything less is read twice.
- *The format in force*, when it is read again: it counts as the other reading, if the frame that
  follows has its widths and decimals too.

No reading detects a unit that is changed at the panel to one with the same decimals before the next
question for the unit. For firmware without such a question (GP, 1v to 8v, meters before 10v05) the
table has to be read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._frames.basis_frame import read_basis_columns
from penstock.alicat._frames.data_frame import DataFrameFormat, parse_data_frame_format
from penstock.alicat._frames.format_in_force import FormatInForce
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.setpoints import FullScaleValue
from penstock.alicat.commands.command import CommandContext
from penstock.alicat.commands.system import DATA_FRAME_FORMAT_QUERY
from penstock.alicat.commands.units import FULL_SCALE_QUERY, FullScaleQueryRequest
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic

__all__ = ["read_data_frame_format", "read_full_scale"]

#: The largest number of readings of the table. One damaged reading costs two.
_MOST_READINGS = 5


async def read_data_frame_format(
    client: AlicatProtocolClient,
    unit_id: str,
    *,
    timeout: float,
    firmware: FirmwareVersion,
    generation: int | None = None,
    known: FormatInForce | None = None,
) -> FormatInForce:
    """Ask for the data frame's columns, and prove them on a frame.

    A table of which rows were lost, or that was cut short by an instrument that pauses in it,
    does not fit the frame; it is then read again, waiting four times as long for its end.

    Args:
        client: The client of the bus.
        unit_id: The instrument's letter.
        timeout: Seconds for a one-line answer.
        firmware: The instrument's firmware.
        generation: The client's generation that the questions are meant for.
        known: The format that was in force until now.

    Raises:
        AlicatParseError: no two readings were alike.
        AlicatError: as for :func:`penstock.alicat._instrument.identification.identify`.
    """
    ask = _Asking(client, unit_id, timeout, generation)
    describes_itself = firmware.family is not FirmwareFamily.BASIS
    patience = 1
    before: DataFrameFormat | None = None
    sample = b""
    failure = AlicatParseError(
        f"unit {unit_id} described its data frame differently each of {_MOST_READINGS} times: "
        "check the line, and that nobody is changing its settings",
        field_name="data_frame_table",
        context=ErrorContext(command_name="??D*", unit_id=unit_id, port=client.label),
    )
    for reading in range(_MOST_READINGS):
        try:
            columns = await (ask.table(patience) if describes_itself else ask.basis_columns())
            if columns == before:
                return FormatInForce(columns, columns.decoder(unit_id, sample))
            sample = await ask.frame_of(columns)
            decoder = columns.decoder(unit_id, sample)
        except AlicatParseError as error:
            # Two in a row are not damage: the instrument's table is not understood.
            if before is None and reading:
                raise
            patience, before, failure = 4, None, error
            continue
        if known is not None:
            if columns == known.columns and known.decoder.accepts(sample):
                # A new decoder: a damaged gas name that the old one believed is forgotten.
                return FormatInForce(columns, decoder)
        elif decoder.confirms_every_column and columns.is_stated_twice:
            return FormatInForce(columns, decoder)
        before = columns
    raise failure


async def read_full_scale(
    client: AlicatProtocolClient,
    info: DeviceInfo,
    data_frame_format: DataFrameFormat,
    *,
    timeout: float,
    generation: int | None = None,
) -> Mapping[Statistic, FullScaleValue]:
    """The full scale of the quantity that a controller controls, if its firmware tells it.

    Raises:
        AlicatConnectionError: the port is lost or closed.
    """
    setpoint = data_frame_format.setpoint_field
    controlled = setpoint.statistic.controlled if setpoint and setpoint.statistic else None
    command = FULL_SCALE_QUERY
    if not info.kind.is_controller or controlled is None or info.firmware not in command.firmware:
        return MappingProxyType({})
    context = CommandContext(info.unit_id, info.firmware)
    request = FullScaleQueryRequest(controlled)
    try:
        exchange = await client.exchange(
            command.encode(context, request),
            lambda line: command.decode(line, request, context),
            timeout=timeout,
            generation=generation,
        )
    except AlicatConnectionError:
        raise
    except AlicatError:
        # Without it only the limit for setpoints is missing; the instrument checks its own.
        return MappingProxyType({})
    if exchange.value is None:
        return MappingProxyType({})
    return MappingProxyType({controlled: exchange.value})


@dataclass(frozen=True, slots=True)
class _Asking:
    client: AlicatProtocolClient
    unit_id: str
    timeout: float
    generation: int | None

    async def table(self, patience: int) -> DataFrameFormat:
        table, client = DATA_FRAME_FORMAT_QUERY, self.client
        rows = await client.query_lines(
            f"{self.unit_id}{table.token}\r".encode(),
            table.is_row,
            table.is_last_row,
            wanted=table.wanted,
            first_timeout=2 * self.timeout,
            idle_timeout=patience * client.idle_timeout,
            generation=self.generation,
        )
        return parse_data_frame_format(rows)

    async def basis_columns(self) -> DataFrameFormat:
        return await read_basis_columns(
            self.client, self.unit_id, timeout=self.timeout, generation=self.generation
        )

    async def frame_of(self, columns: DataFrameFormat) -> bytes:
        """A frame that has the columns, whatever their widths and decimals."""
        loose = columns.decoder(self.unit_id)

        def sample_of(line: bytes) -> bytes:
            if not loose.accepts(line):
                loose(line)
            return line

        exchange = await self.client.exchange(
            f"{self.unit_id}\r".encode(),
            sample_of,
            timeout=self.timeout,
            generation=self.generation,
        )
        return exchange.value
