"""What is known of one instrument, for as long as it is known to be that instrument.

A session holds what an instrument told when it was identified: its serial number, the columns and
units of its data frame, the decoder made of them, the proof that the client settles debts with. All
of it is worth something only while nobody has replaced the instrument, changed it at its panel or
lost its line. So a session can be *stale*: then nothing is sent to the unit before it has
identified itself again and is found to be the same instrument by its serial number.

A session becomes stale when the line is lost or was opened again, when the unit has been silent
for several questions in a row (it may have been replaced, or have lost its power), and when its
frames no longer have the form that they had. A unit's change at the panel is noticed by comparing
the unit that an answer bears with the format in force. Readings bear none, so the unit is asked for
now and then, and always before a setpoint is sent: the same number in another unit may be a
thousand times the flow.

*Rejected:* a stream that reconnects by itself under the client. Debts, identity and format belong
to the connection, and would silently outlive it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import Enum
from time import monotonic, monotonic_ns, time_ns
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from .client import Exchange
from .commands.applicability import check_applies
from .commands.command import (
    Command,
    CommandContext,
    CommandSpec,
    ReplyIdentity,
    ReportedUnit,
    TableCommand,
)
from .commands.setpoint import SETPOINT, SetpointRequest
from .commands.units import ENGINEERING_UNITS, EngineeringUnitsRequest
from .config import AlicatConfig
from .eeprom_wear import EepromWearMonitor
from .errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatIdentityError,
    AlicatParseError,
    AlicatTimeoutError,
    AlicatUnitChangedError,
    AlicatValidationError,
    ErrorContext,
)
from .events import DeviceEvent, EventKind
from .frame_decoder import FrameDecoder, ParsedFrame, UnseenGasError
from .identification import Identity, identify, read_data_frame_format, read_full_scale
from .reading import Reading
from .registry import Statistic, Unit
from .registry.units import clean_unit_label
from .retry_delay import RetryDelay

if TYPE_CHECKING:
    from .client import AlicatProtocolClient
    from .data_frame import DataFrameField, DataFrameFormat
    from .identity import DeviceInfo

__all__ = ["Session", "SessionState"]

_log = logging.getLogger("penstock.alicat")

Req = TypeVar("Req")
Resp = TypeVar("Resp")
T = TypeVar("T")

_FIRST_RETRY_S = 0.25
_LAST_RETRY_S = 2.0
_CHECKED_STATISTICS = (
    Statistic.MASS_FLOW,
    Statistic.VOL_FLOW,
    Statistic.GAUGE_PRESS,
    Statistic.ABS_PRESS,
    Statistic.DIFF_PRESS,
)


class SessionState(Enum):
    """Whether the instrument can be asked."""

    OPERATIONAL = "operational"
    STALE = "stale"
    """It must identify itself before it is asked; the next call sees to that."""
    CLOSED = "closed"


class Session:
    """Executes commands on one instrument. Made by :func:`open_device`.

    Several tasks may use it: their commands queue on the bus. Not thread-safe. A cancelled call
    frees the bus and mixes nothing up.
    """

    def __init__(
        self,
        client: AlicatProtocolClient,
        info: DeviceInfo,
        data_frame_format: DataFrameFormat,
        decoder: FrameDecoder,
        *,
        timeout: float = 0.5,
        config: AlicatConfig | None = None,
    ) -> None:
        self._client = client
        self._info = info
        self._timeout = timeout
        self._config = config or AlicatConfig()
        self._poll_command = f"{info.unit_id}\r".encode()
        self._establishing = anyio.Lock()
        self._subscribers: list[Callable[[DeviceEvent], None]] = []
        self._wear = EepromWearMonitor(
            warn_per_minute=self._config.save_rate_warn_per_min,
            limit_per_minute=self._config.save_rate_limit_per_min,
        )
        self._generation = client.generation
        self._stale: str | None = None
        self._closed = False
        self._retry = RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)
        self._silences = 0
        self._misfits = 0
        self._revision = 0
        self._last_error: ErrorContext | None = None
        self._unit_check_at = monotonic() + self._config.unit_check_s
        self._use_format(data_frame_format, decoder)
        self._meant_setpoint_label = self._setpoint_label()

    # -- what is known without asking

    @property
    def client(self) -> AlicatProtocolClient:
        """The client of its bus."""
        return self._client

    @property
    def info(self) -> DeviceInfo:
        """What the instrument said of itself."""
        return self._info

    @property
    def unit_id(self) -> str:
        """Its letter on the bus."""
        return self._info.unit_id

    @property
    def config(self) -> AlicatConfig:
        """The settings."""
        return self._config

    @property
    def data_frame_format(self) -> DataFrameFormat:
        """The columns of its data frame, as they are in force."""
        return self._format

    @property
    def revision(self) -> int:
        """Counts the changes of the data frame's columns and units."""
        return self._revision

    @property
    def port_label(self) -> str:
        """The port's name."""
        return self._client.label

    @property
    def last_error(self) -> ErrorContext | None:
        """The context of the last failure."""
        return self._last_error

    @property
    def eeprom_writes(self) -> int:
        """Writes to its EEPROM that this session has sent."""
        return self._wear.total

    @property
    def state(self) -> SessionState:
        """Whether the instrument can be asked."""
        if self._closed:
            return SessionState.CLOSED
        return SessionState.OPERATIONAL if self._is_current() else SessionState.STALE

    def subscribe(self, callback: Callable[[DeviceEvent], None]) -> Callable[[], None]:
        """Have ``callback`` called with every event; returns what ends that.

        It is called in the middle of the call that noticed the event, so it must be short and must
        not raise.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    # -- asking

    async def poll(self) -> Reading:
        """Ask for one data frame.

        Raises:
            AlicatTimeoutError: no frame came in time.
            AlicatProtocolError: something else came; never a value of an older or another unit's
                frame.
            AlicatConnectionError: the port is lost or closed, or is not back yet.
        """
        if not self._is_current():
            await self._establish()
        if monotonic() >= self._unit_check_at:
            await self._check_unit()
        try:
            return self.reading_of(await self._ask_frame())
        except UnseenGasError:
            return self.reading_of(await self._ask_frame())

    async def execute(
        self,
        command: Command[Req, Resp] | TableCommand[Req, Resp],
        request: Req,
        *,
        timeout: float | None = None,
    ) -> Resp:
        """Execute a command.

        Checked before a byte is sent: whether this instrument has the command (firmware, kind,
        medium, hardware), whether its arguments are possible, and whether what cannot be undone is
        confirmed. A request that only asks is asked a second time after a timeout. One that changes
        something never is.

        Raises:
            AlicatCapabilityError: the instrument does not have the command; nothing was sent.
            AlicatConfigurationError: an argument is not possible, or a confirmation is missing;
                nothing was sent.
            AlicatError: as for :meth:`poll`. After a timeout it is unknown whether a change was
                made.
        """
        if isinstance(command, TableCommand):
            data = await self._prepare(command, request)
            table = command
            return await self._attempt(
                command, request, data, lambda: self._read_table(table, data)
            )
        return (await self._execute_line(command, request, timeout)).value

    async def execute_for_reading(
        self, command: Command[Req, ParsedFrame], request: Req, *, timeout: float | None = None
    ) -> Reading:
        """Execute a command that is answered by a data frame; raises as :meth:`execute`."""
        return self.reading_of(await self._execute_line(command, request, timeout))

    async def prove_setpoint_unit(self, unit: Unit | str | None) -> None:
        """Make sure that a number is meant in the unit that the controller counts its setpoint in.

        The instrument is asked. ``unit`` is the unit that the caller states; where it states none,
        the number is meant in the unit that was in force when the instrument was opened, or when
        the caller last read the format.

        Raises:
            AlicatUnitChangedError: the instrument counts in another unit.
            AlicatError: as for :meth:`execute`; the unit is not proven then.
        """
        if self._info.firmware.has_modern_setpoint:
            await self.execute(SETPOINT, SetpointRequest())
        else:
            await self._refresh()
        self.check_setpoint_unit(unit)

    def check_setpoint_unit(self, unit: Unit | str | None) -> None:
        """The same by what is known already.

        Raises:
            AlicatValidationError: the caller states another unit than the one in force.
            AlicatUnitChangedError: the unit in force is not the one that was meant.
        """
        label = self._setpoint_label()
        if unit is not None:
            wanted = Unit.coerce(unit)
            if label is not None and wanted is not Unit.from_label(label):
                raise AlicatValidationError(
                    f"unit {self.unit_id} takes its setpoint in {label}, not in {wanted.value}: "
                    "convert the value, or change the instrument's unit",
                    context=self._error_context(SETPOINT),
                )
            return
        meant = self._meant_setpoint_label
        if meant is not None and (label is None or not _same_unit(meant, label)):
            raise AlicatUnitChangedError(
                f"unit {self.unit_id} counts its setpoint in {label or 'an unknown unit'} now, and "
                f"not in {meant} as when it was opened; the setpoint was not sent: state unit=... "
                "with it, or call refresh_data_frame_format() to take the new unit for granted",
                expected=meant,
                actual=label,
                context=self._error_context(SETPOINT),
            )

    async def refresh_data_frame_format(self) -> DataFrameFormat:
        """Read the columns of the data frame again, and take their units for granted.

        Raises:
            AlicatError: as for :meth:`poll`; the old format stays in use then.
        """
        if not self._is_current():
            await self._establish()
        await self._refresh()
        self._meant_setpoint_label = self._setpoint_label()
        return self._format

    async def ensure_current(self) -> int:
        """Have the instrument identify itself if it must; the client's generation that it answered
        on."""
        if not self._is_current():
            await self._establish()
        return self._generation

    def decode_streamed(self, line: bytes) -> ParsedFrame:
        """The values of a frame that came unasked, with the unit's letter put before it."""
        return self._decoder(line)

    def invalidate(self, reason: str) -> None:
        """Have the instrument identify itself before it is asked the next time."""
        if self._stale is None:
            self._stale = reason
            self._client.forget_unit(self.unit_id)

    def close(self) -> None:
        """Let go of the instrument; the client stays open. May be called more than once."""
        if not self._closed:
            self._closed = True
            self._client.forget_unit(self.unit_id)

    # -- one question

    async def _ask_frame(self) -> Exchange[ParsedFrame]:
        try:
            exchange = await self._client.exchange(
                self._poll_command,
                self._decoder,
                timeout=self._timeout,
                generation=self._generation,
            )
        except AlicatError as error:
            await self._heed_failure(error)
            raise
        self._silences = self._misfits = 0
        return exchange

    async def _execute_line(
        self, command: Command[Req, Resp], request: Req, timeout: float | None
    ) -> Exchange[Resp]:
        data = await self._prepare(command, request)
        exchange = await self._attempt(
            command, request, data, lambda: self._ask(command, request, data, timeout)
        )
        if not command.invalidates_format(request):
            await self._compare_units(command.reported_units(request, exchange.value))
        return exchange

    async def _prepare(self, command: CommandSpec[Req], request: Req) -> bytes:
        """The bytes of a request that may be sent, to a unit that is known to be the right one."""
        check_applies(command, self._info, self._error_context(command))
        command.arguments(request, self._context())
        loss = command.confirm(request)
        if loss:
            raise AlicatValidationError(
                f"{command.name} on unit {self.unit_id} was not sent: {loss}; repeat it with "
                "confirm=True",
                context=self._error_context(command),
            )
        if not self._is_current():
            await self._establish()
        data = command.encode(self._context(), request)
        if command.saves(request):
            self._wear.record(command.name, self.unit_id, self.port_label)
        return data

    async def _attempt(
        self,
        command: CommandSpec[Req],
        request: Req,
        data: bytes,
        ask: Callable[[], Awaitable[T]],
    ) -> T:
        """Ask; ask again after a timeout what only asks; draw the conclusions."""
        changes = command.changes(request)
        try:
            try:
                answer = await ask()
            except AlicatTimeoutError as error:
                if changes:
                    raise
                await self._heed_failure(error)
                if not self._is_current():
                    raise
                answer = await ask()
        except AlicatError as error:
            error.context = error.context.merged(
                command_name=command.name,
                firmware=self._info.firmware,
                device_kind=self._info.kind,
            )
            await self._heed_failure(error)
            raise
        self._silences = 0
        if changes:
            self._tell(command.event, f"{command.name}: {data.decode('ascii').strip()}")
            if command.invalidates_format(request):
                await self.refresh_data_frame_format()
        return answer

    async def _ask(
        self, command: Command[Req, Resp], request: Req, data: bytes, timeout: float | None
    ) -> Exchange[Resp]:
        context = self._context()
        decode = command.decode
        allowed = self._timeout if timeout is None else timeout
        return await self._client.exchange(
            data,
            lambda line: decode(line, request, context),
            timeout=allowed + command.patience_s(request),
            letterless=command.identity is ReplyIdentity.LETTERLESS,
            generation=self._generation,
        )

    async def _read_table(self, command: TableCommand[Any, Resp], data: bytes) -> Resp:
        rows = await self._client.query_lines(
            data,
            command.is_row,
            command.is_last_row,
            wanted=command.wanted,
            first_timeout=2 * self._timeout,
            generation=self._generation,
        )
        return command.decode_rows(rows, self._context())

    async def _heed_failure(self, error: AlicatError) -> None:
        """Draw the conclusions of a failure about what is still known of the instrument."""
        self._last_error = error.context
        if isinstance(error, AlicatConnectionError):
            if self._client.can_reopen:
                self._lose(str(error))
        elif isinstance(error, AlicatTimeoutError):
            self._silences += 1
            limit = self._config.silences_before_identifying
            if limit and self._silences >= limit:
                self._lose(f"it did not answer {self._silences} questions in a row")
        elif isinstance(error, UnseenGasError):
            pass
        elif isinstance(error, AlicatParseError):
            # Once may be a disturbance on the line; twice in a row the format may be another.
            self._misfits += 1
            if self._misfits == 2:
                try:
                    await self._refresh()
                except AlicatError as failure:
                    _log.info("unit %s: the format could not be read: %s", self.unit_id, failure)

    def _lose(self, reason: str) -> None:
        if self._stale is None:
            self.invalidate(reason)
            self._tell(EventKind.CONNECTION_LOST, reason)

    # -- being the same instrument

    def _is_current(self) -> bool:
        return (
            self._stale is None and self._generation == self._client.generation and not self._closed
        )

    async def _establish(self) -> None:
        """Have the instrument identify itself, and go on only if it is the one that was opened."""
        if self._closed:
            raise AlicatConnectionError(
                f"unit {self.unit_id} on {self.port_label} is closed; open the device again",
                context=self._error_context(),
            )
        async with self._establishing:
            if self._is_current():
                return
            if (wait := self._retry.remaining()) > 0:
                raise AlicatConnectionError(
                    f"unit {self.unit_id} on {self.port_label} is away ({self._reason()}); it is "
                    f"tried again in {wait:.1f} s",
                    context=self._error_context(),
                )
            client = self._client
            try:
                if not client.is_open:
                    await client.reopen()
                generation = client.generation
                identity = await identify(
                    client, self.unit_id, timeout=self._timeout, generation=generation
                )
                self._check_same(identity)
                found = await read_data_frame_format(
                    client, self.unit_id, timeout=self._timeout, generation=generation
                )
            except AlicatError as error:
                self._last_error = error.context
                self._retry.failed()
                raise
            away = self._reason()
            self._generation = generation
            self._stale = None
            self._silences = self._misfits = 0
            self._retry.succeeded()
            client.line_is_good()
            self._tell(EventKind.RECONNECTED, f"it is back after {away}")
            await self._take_format(*found)

    def _reason(self) -> str:
        return self._stale or "the line was opened again"

    def _check_same(self, identity: Identity) -> None:
        info = self._info
        if info.serial is not None and identity.serial is not None:
            if identity.serial == info.serial:
                return
            told, known = f"serial number {identity.serial}", info.serial
        elif identity.software == info.software and (
            identity.made is None or identity.made.model in (None, info.model)
        ):
            # Neither tells a serial number now: the firmware and the model must do.
            return
        else:
            told, known = f"firmware {identity.software}", info.software
        raise AlicatIdentityError(
            f"another instrument answers as unit {self.unit_id} on {self.port_label}: {told}, not "
            f"{known}; connect the one that was opened, or close the device and open it again",
            context=self._error_context(),
        )

    # -- the format in force

    def _use_format(self, data_frame_format: DataFrameFormat, decoder: FrameDecoder) -> None:
        self._format = data_frame_format
        self._decoder = decoder
        self._units: Mapping[str, str] = MappingProxyType(data_frame_format.units())
        self._names_by_statistic: Mapping[Statistic, str] = MappingProxyType(
            {f.statistic: f.name for f in reversed(data_frame_format.fields) if f.statistic}
        )

    async def _refresh(self) -> None:
        await self._take_format(
            *await read_data_frame_format(
                self._client, self.unit_id, timeout=self._timeout, generation=self._generation
            )
        )
        self._misfits = 0

    async def _take_format(self, data_frame_format: DataFrameFormat, decoder: FrameDecoder) -> None:
        before = self._format
        self._use_format(data_frame_format, decoder)
        if data_frame_format.fields == before.fields:
            return
        self._revision += 1
        self._tell(
            EventKind.FORMAT_CHANGED,
            f"its data frame was {_described(before)} and is {_described(data_frame_format)}",
        )
        full_scale = await read_full_scale(
            self._client,
            self._info,
            data_frame_format,
            timeout=self._timeout,
            generation=self._generation,
        )
        self._info = replace(self._info, full_scale=full_scale)

    def _setpoint_label(self) -> str | None:
        field = self._format.setpoint_field
        return None if field is None else field.unit_label

    async def _compare_units(self, reported: tuple[ReportedUnit, ...]) -> None:
        for unit in reported:
            field = self._field_of(unit.quantity)
            label = field.unit_label if field is not None else None
            if label is None or not unit.label or _same_unit(label, unit.label):
                continue
            assert field is not None
            self._tell(
                EventKind.UNIT_CHANGED,
                f"{field.name} is in {unit.label} now, and was in {label}",
                {"field": field.name, "before": label, "after": unit.label},
            )
            await self._refresh()
            return

    def _field_of(self, quantity: Statistic | None) -> DataFrameField | None:
        if quantity is None:
            return self._format.setpoint_field
        return next((f for f in self._format.fields if f.statistic is quantity), None)

    async def _check_unit(self) -> None:
        """Ask for a unit that an answer bears; what comes of it is compared with the format."""
        self._unit_check_at = math.inf
        interval = self._config.unit_check_s
        try:
            if interval:
                if self._info.kind.is_controller and self._info.firmware.has_modern_setpoint:
                    await self.execute(SETPOINT, SetpointRequest())
                elif self._info.firmware in ENGINEERING_UNITS.firmware:
                    statistic = next((s for s in _CHECKED_STATISTICS if self._field_of(s)), None)
                    if statistic is not None:
                        await self.execute(ENGINEERING_UNITS, EngineeringUnitsRequest(statistic))
        except AlicatError as error:
            _log.info("unit %s: its unit could not be asked: %s", self.unit_id, error)
        finally:
            self._unit_check_at = monotonic() + interval if interval else math.inf

    def _context(self) -> CommandContext:
        return CommandContext(self.unit_id, self._info.firmware, self._format, self._decoder)

    def _error_context(self, command: CommandSpec[Any] | None = None) -> ErrorContext:
        info = self._info
        return ErrorContext(
            command_name=None if command is None else command.name,
            unit_id=info.unit_id,
            port=self.port_label,
            firmware=info.firmware,
            device_kind=info.kind,
            device_media=info.media,
            command_media=None if command is None else command.media,
        )

    # -- telling

    def reading_of(self, exchange: Exchange[ParsedFrame]) -> Reading:
        """A frame with the units in force and its times."""
        frame, requested_ns, requested_unix_ns, received_ns, received_unix_ns = exchange
        return Reading(
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

    def _tell(
        self, kind: EventKind, message: str, data: Mapping[str, object] | None = None
    ) -> None:
        event = DeviceEvent(
            kind,
            self.unit_id,
            message,
            monotonic_ns(),
            time_ns(),
            MappingProxyType(dict(data or {})),
        )
        for callback in tuple(self._subscribers):
            callback(event)


def _same_unit(one: str, other: str) -> bool:
    first, second = Unit.from_label(one), Unit.from_label(other)
    if first is not None and second is not None:
        return first is second
    return clean_unit_label(one).casefold() == clean_unit_label(other).casefold()


def _described(data_frame_format: DataFrameFormat) -> str:
    return ", ".join(
        f.name if f.unit_label is None else f"{f.name} in {f.unit_label}"
        for f in data_frame_format.fields
    )
