"""The data frame format in force: read, proven, and kept equal to the instrument's own.

**Proof.** Neither the table (``??D*``) nor a frame has a checksum, and a frame carries no units. So
two things can make a table false: a damaged byte, and a change of the unit at the panel between the
table and the frame that proves it. Three properties of the protocol help:

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

**Doubt.** Frames carry no units, so a change of the unit at the panel makes the format false
without any sign. Two things show it: an answer with a unit, which is requested at intervals, and
frames of another form. Once an answer carries another unit, the format is *in doubt*: no frame is
labelled by it until it has been read again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock._record import filled
from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import Exchange
from penstock.alicat._bus.scheduler import BusScheduler
from penstock.alicat._instrument.data_frame import (
    DataFrameField,
    DataFrameFormat,
    parse_data_frame_format,
    read_basis_columns,
)
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.kinds import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.reading import FrameDecoder, ParsedFrame, Reading, slots_of
from penstock.alicat._instrument.setpoints import FullScaleValue
from penstock.alicat.commands.command import Command, CommandContext, ReportedUnit
from penstock.alicat.commands.control import SETPOINT, SetpointRequest
from penstock.alicat.commands.measurement import (
    ENGINEERING_UNITS,
    FULL_SCALE_QUERY,
    EngineeringUnitsRequest,
    FullScaleQueryRequest,
)
from penstock.alicat.commands.system import DATA_FRAME_FORMAT_QUERY
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic
from penstock.alicat.registry.units import are_same_unit

if TYPE_CHECKING:
    from penstock.alicat._session.session import Session


_SLOTS_OF_READING = slots_of(Reading)


class FormatInForce:
    """A format with its decoder, created once for many frames. Immutable; does no I/O."""

    __slots__ = ("_names_by_statistic", "_units", "columns", "decoder")

    def __init__(self, columns: DataFrameFormat, decoder: FrameDecoder) -> None:
        self.columns: DataFrameFormat = columns
        self.decoder: FrameDecoder = decoder
        self._units = MappingProxyType(columns.units())
        self._names_by_statistic = MappingProxyType(
            {f.statistic: f.name for f in reversed(columns.fields) if f.statistic}
        )

    @property
    def setpoint_label(self) -> str | None:
        """The unit of the setpoint, as the instrument writes it."""
        field = self.columns.setpoint_field
        return None if field is None else field.unit_label

    def field_of(self, quantity: Statistic | None) -> DataFrameField | None:
        """The column of a quantity, or of the setpoint."""
        if quantity is None:
            return self.columns.setpoint_field
        return next((f for f in self.columns.fields if f.statistic is quantity), None)

    def first_difference(
        self, reported: Iterable[ReportedUnit]
    ) -> tuple[DataFrameField, str] | None:
        """The first column that an answer reports in another unit, and that unit."""
        for unit in reported:
            field = self.field_of(unit.quantity)
            if field is None or field.unit_label is None or not unit.label:
                continue
            if not are_same_unit(field.unit_label, unit.label):
                return field, unit.label
        return None

    def reading_of(self, exchange: Exchange[ParsedFrame]) -> Reading:
        """Return the reading of a frame: its values, the units in force and its times."""
        frame, requested_ns, requested_unix_ns, received_ns, received_unix_ns = exchange
        return filled(
            Reading,
            _SLOTS_OF_READING,
            frame.unit_id,
            frame.values,
            self._units,
            frame.status,
            requested_ns,
            requested_unix_ns,
            received_ns,
            received_unix_ns,
            frame.unknown_status,
            self._names_by_statistic,
        )

    def __str__(self) -> str:
        return ", ".join(
            f.name if f.unit_label is None else f"{f.name} in {f.unit_label}"
            for f in self.columns.fields
        )


_CHECKED_STATISTICS = (
    Statistic.MASS_FLOW,
    Statistic.VOL_FLOW,
    Statistic.GAUGE_PRESS,
    Statistic.ABS_PRESS,
    Statistic.DIFF_PRESS,
)


def unit_question(
    info: DeviceInfo, in_force: FormatInForce
) -> tuple[Command[Any, Any], object] | None:
    """A command and a request whose answer carries a unit; ``None`` if the firmware has none.

    The setpoint's unit is the one that matters most, so a controller is asked for its setpoint.
    """
    if info.kind.is_controller and info.firmware.has_modern_setpoint:
        return SETPOINT, SetpointRequest()
    if info.firmware in ENGINEERING_UNITS.firmware:
        for statistic in _CHECKED_STATISTICS:
            if in_force.field_of(statistic):
                return ENGINEERING_UNITS, EngineeringUnitsRequest(statistic)
    return None


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
        AlicatError: as for :func:`penstock.alicat._session.identification.identify`.
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

        def sample_of(line: bytes) -> bytes:
            if not columns.fits(line, self.unit_id):
                columns.decoder(self.unit_id)(line)  # raises what is wrong with it
            return line

        exchange = await self.client.exchange(
            f"{self.unit_id}\r".encode(),
            sample_of,
            timeout=self.timeout,
            generation=self.generation,
        )
        return exchange.value


_log = logging.getLogger("penstock.alicat")


class FormatKeeper:
    """The format in force of one session, and whether it can still be relied on.

    Args:
        session: The session that the format belongs to. Sends the questions and reports events.
        in_force: The format as it was read when the instrument was opened.
        check_s: Seconds between two questions for a unit; 0: no questions.
    """

    def __init__(self, session: Session, in_force: FormatInForce, check_s: float) -> None:
        self.in_force = in_force
        self.revision = 0
        """Counts the changes."""
        self.proof_generation = 0
        """Counts what may have changed a unit; see
        :mod:`penstock.alicat._session.setpoint_proof`."""
        self._contradicted = False
        self._refreshes = 0
        self._session = session
        self._turns = BusScheduler(session.client.waiting)
        self._misfits = 0
        self._check_s = check_s
        self.check_at = monotonic() + check_s if check_s else math.inf
        """When the next question for the unit is due."""

    @property
    def in_doubt(self) -> bool:
        """Whether an answer carried another unit and the format has not been read since.

        Also while a task reads it.
        """
        return self._contradicted or self._refreshes > 0

    def void_proofs(self) -> None:
        """Note that a unit may have changed: no number is sent by an older proof of its unit."""
        self.proof_generation += 1

    def frame_fitted(self) -> None:
        """Note that a frame had the form of the format."""
        self._misfits = 0

    async def frame_did_not_fit(self) -> None:
        """Note that a frame had another form, and read the format if that happens repeatedly.

        One such frame may be a disturbance on the line; after two in a row the format may have
        changed. It is read every second time, because reading it may fail too.
        """
        self._misfits += 1
        if self._misfits % 2 == 0:
            try:
                await self.refresh()
            except AlicatError as failure:
                _log.info(
                    "unit %s: the format could not be read: %s", self._session.unit_id, failure
                )

    async def refresh(self) -> None:
        """Read the format again.

        Meanwhile it is in doubt: another task's frame may be from after a change.

        Raises:
            AlicatError: as for :func:`read_data_frame_format`; the old format then stays in force,
                and stays in doubt if it was.
        """
        # A count, since several tasks may do this at once: one that fails says nothing about the
        # others, nor about an answer with another unit meanwhile.
        self._refreshes += 1
        try:
            await self.settle_doubt()
        finally:
            self._refreshes -= 1

    async def settle_doubt(self) -> None:
        """Read the format if it is in doubt; raises as :meth:`refresh`."""
        async with self._reading():
            if self.in_doubt:
                await self.take(await self._read())

    async def take(self, found: FormatInForce) -> None:
        """Put a format into force that was read just now, and report the changes."""
        before, session = self.in_force, self._session
        self.in_force = found
        self._contradicted = False
        self._misfits = 0
        if found.columns.fields == before.columns.fields:
            return
        self.void_proofs()
        self.revision += 1
        session.tell(EventKind.FORMAT_CHANGED, f"its data frame was {before} and is {found}")
        session.learn_full_scale(
            await read_full_scale(
                session.client,
                session.info,
                found.columns,
                timeout=session.timeout,
                generation=session.generation,
            )
        )

    async def compare(self, reported: tuple[ReportedUnit, ...]) -> None:
        """Compare the units in an answer with the format; read it again if they differ.

        Raises:
            AlicatError: it could not be read; it is in doubt from now on.
        """
        difference = self.in_force.first_difference(reported)
        if difference is None:
            return
        field, label = difference
        self._contradicted = True
        self.void_proofs()
        async with self._reading():
            if not self._contradicted and self.in_force.first_difference(reported) is None:
                return  # another task has read it, and has reported the change
            found = await self._read()
            if found.first_difference(reported) is None:
                self._session.tell(
                    EventKind.UNIT_CHANGED,
                    f"{field.name} is in {label} now, and was in {field.unit_label}",
                    {"field": field.name, "before": field.unit_label, "after": label},
                )
            # Otherwise the answer was damaged, or the unit was changed once more.
            await self.take(found)

    async def check_unit(self) -> None:
        """Send a question whose answer carries a unit, and compare the unit.

        A question that fails is asked again when the next check is due.

        Raises:
            AlicatError: another unit was reported, and the format could not be read.
        """
        # No other task may ask meanwhile.
        self.check_at = math.inf
        session = self._session
        try:
            question = unit_question(session.info, self.in_force)
            if question is not None:
                await session.execute(*question)
        except AlicatError as error:
            if self.in_doubt:
                raise
            _log.info("unit %s: its unit could not be asked: %s", session.unit_id, error)
        finally:
            self.check_at = monotonic() + self._check_s

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[None, None]:
        """One task at a time."""
        if not self._turns.try_acquire(0):
            await self._turns.acquire(0)
        try:
            yield
        finally:
            self._turns.release()

    async def _read(self) -> FormatInForce:
        session = self._session
        return await read_data_frame_format(
            session.client,
            session.unit_id,
            timeout=session.timeout,
            firmware=session.info.firmware,
            generation=session.generation,
            known=self.in_force,
        )
