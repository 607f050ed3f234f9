"""What is known about one instrument, as long as it is proven to be that instrument.

A session holds the facts that the instrument reported when it was identified: its serial number,
the columns and units of its data frame, and the decoder made from them. They become false if the
instrument is replaced or changed at its panel, or if its line is lost. A session can therefore be
*stale*: before anything else is sent to the unit, it must identify itself again with the same
serial number.

A session becomes stale when the line is lost or was opened again, and when the unit has been silent
for several requests in a row, since it may have been replaced or have lost its power. When its
frames no longer have their form, the columns are read again. A change of units at the panel is
noticed by comparing the unit of an answer with the format in force. Data frames carry no unit, so
the unit is requested at intervals, and always before a setpoint is sent: the same number in another
unit may be a thousand times the flow.

*Rejected:* a stream that reconnects by itself under the client. Outstanding replies, identity and
format belong to one connection and would silently outlive it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.alicat._bus.client import Exchange
from penstock.alicat._bus.scheduler import BusScheduler
from penstock.alicat._bus.wire import RetryDelay, check_seconds
from penstock.alicat._instrument.events import DeviceEvent, EventKind, Subscribers
from penstock.alicat._instrument.identity import CapabilityEvidence
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat._instrument.reading import ParsedFrame, Reading, UnseenGasError
from penstock.alicat._instrument.setpoints import FullScaleValue, ProvenNumber
from penstock.alicat._session.admission import Admission, EepromWearMonitor
from penstock.alicat._session.data_format import FormatInForce, FormatKeeper
from penstock.alicat._session.identification import change_baud_rate, change_unit_id, identify_again
from penstock.alicat._session.setpoint_proof import SetpointProof
from penstock.alicat.commands.command import (
    Command,
    CommandContext,
    CommandSpec,
    ReplyIdentity,
    ReportedUnit,
    TableCommand,
)
from penstock.alicat.commands.measurement import UnitSetting
from penstock.alicat.config import AlicatConfig
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    AlicatTimeoutError,
    AlicatValidationError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic, Unit

if TYPE_CHECKING:
    from penstock.alicat._bus.client import AlicatProtocolClient
    from penstock.alicat._instrument.data_frame import DataFrameFormat
    from penstock.alicat._instrument.identity import DeviceInfo


Req = TypeVar("Req")
Resp = TypeVar("Resp")
T = TypeVar("T")

_FIRST_RETRY_S = 0.25
_LAST_RETRY_S = 2.0


def _context_of(info: DeviceInfo, in_force: FormatInForce) -> CommandContext:
    return CommandContext(info.unit_id, info.firmware, in_force.columns, in_force.decoder)


class SessionState(Enum):
    """Whether the instrument can be asked."""

    OPERATIONAL = "operational"
    STALE = "stale"
    """It must identify itself before its next question; the next call does that."""
    CLOSED = "closed"


class Session:
    """Executes commands on one instrument. Made by :func:`open_device`.

    Several tasks may use it: their commands queue on the bus. Not thread-safe. A cancelled call
    releases the bus, and its late answer is not taken for another one.
    """

    def __init__(
        self,
        client: AlicatProtocolClient,
        info: DeviceInfo,
        in_force: FormatInForce,
        *,
        timeout: float = 0.5,
        config: AlicatConfig | None = None,
    ) -> None:
        self._client = client
        self._info = info
        self._timeout = timeout
        self._config = config or AlicatConfig()
        self._poll_command = f"{info.unit_id}\r".encode()
        self._establishing = BusScheduler(client.waiting)
        self._subscribers = Subscribers()
        self._admission = Admission()
        self._wear = EepromWearMonitor(
            warn_per_minute=self._config.save_rate_warn_per_min,
            limit_per_minute=self._config.save_rate_limit_per_min,
        )
        self._generation = client.generation
        self._stale: str | None = None
        self._closed = False
        self._retry = RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)
        self._silences = 0
        self._moves = 0
        self._last_error: ErrorContext | None = None
        self._format = FormatKeeper(self, in_force, self._config.unit_check_s)
        self._context_facts = info, in_force
        self._command_context = _context_of(info, in_force)
        self._proof = SetpointProof(self, self._format)

    # -- what is known without asking

    @property
    def client(self) -> AlicatProtocolClient:
        """The client of its bus."""
        return self._client

    @property
    def info(self) -> DeviceInfo:
        """The facts that the instrument reported."""
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
        return self._format.in_force.columns

    @property
    def meant_label(self) -> str | None:
        """The unit of setpoints that are passed without one."""
        return self._proof.meant_label

    @property
    def revision(self) -> int:
        """Counts the changes of the data frame's columns and units, and of its unit id."""
        return self._format.revision + self._moves

    @property
    def generation(self) -> int:
        """The client's generation that the instrument has identified itself on."""
        return self._generation

    @property
    def port_label(self) -> str:
        """The port's name."""
        return self._client.label

    @property
    def timeout(self) -> float:
        """Seconds for a one-line answer."""
        return self._timeout

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
        """Call ``callback`` with every event. Returns a function that ends the subscription.

        The call that notices the event calls it, so it must be short and must not raise.
        """
        return self._subscribers.add(callback)

    # -- asking

    async def poll(self) -> Reading:
        """Ask for one data frame.

        Raises:
            AlicatTimeoutError: no frame came in time.
            AlicatProtocolError: another line arrived. A value of an older frame or of another unit
                is never returned.
            AlicatConnectionError: the port is lost or closed, or was not reopened yet.
        """
        keeper = self._format
        if not self._is_current():
            await self._establish()
        if monotonic() >= keeper.check_at:
            await keeper.check_unit()
        if keeper.in_doubt:
            await keeper.settle_doubt()
        in_force = keeper.in_force
        asked_again = False
        while True:
            try:
                exchange = await self._client.exchange(
                    self._poll_command,
                    in_force.decoder,
                    timeout=self._timeout,
                    generation=self._generation,
                    poll=True,
                )
                break
            except AlicatError as error:
                await self._note_failure(error)
                if asked_again or not isinstance(error, UnseenGasError):
                    raise
                asked_again = True
        self._silences = 0
        keeper.frame_fitted()
        if keeper.in_doubt or keeper.in_force is not in_force:
            # Another task has found out meanwhile that the columns have changed.
            return await self.poll()
        return in_force.reading_of(exchange)

    async def execute(
        self,
        command: Command[Req, Resp] | TableCommand[Req, Resp],
        request: Req,
        *,
        timeout: float | None = None,
    ) -> Resp:
        """Execute a command.

        Before a byte is sent, this checks that the instrument has the command (firmware, kind,
        medium, hardware), that its arguments are valid, and that it was confirmed if it cannot be
        undone. After a timeout, a request that only reads is repeated once. A request that changes
        something is never repeated.

        Raises:
            AlicatCapabilityError: the instrument does not have the command; nothing was sent.
            AlicatConfigurationError: an argument is not valid, or a confirmation is missing;
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
        in_force = self._format.in_force
        try:
            exchange = await self._execute_line(command, request, timeout)
        except UnseenGasError:
            # The unit has answered, so the command is executed: it must not be sent again. A poll
            # tells whether the frame is right.
            reading = await self.poll()
            if command.changes(request):
                sent = command.encode(self._context(), request).decode("ascii").strip()
                self.tell(command.event, f"{command.name}: {sent}")
            return reading
        if self._format.in_doubt or self._format.in_force is not in_force:
            return await self.poll()
        return in_force.reading_of(exchange)

    async def prove_setpoint(self, value: float, unit: Unit | str | None) -> ProvenNumber:
        """Ask the instrument for the unit of its setpoint, and give it to a number.

        ``unit`` is the unit that the caller states; without one, the number is in the unit that was
        in force when the instrument was opened, or when the caller last read the format.

        Raises:
            AlicatValidationError: the caller states another unit than the instrument has.
            AlicatUnitChangedError: the instrument uses another unit than the caller means, or
                contradicts itself.
            AlicatError: as for :meth:`execute`; the unit is not proven then.
        """
        return await self._proof.prove(value, unit)

    async def refresh_data_frame_format(self) -> DataFrameFormat:
        """Read the columns of the data frame again, and accept their units.

        Raises:
            AlicatError: as for :meth:`poll`; the old format stays in use then.
        """
        if not self._is_current():
            await self._establish()
        await self._format.refresh()
        self._proof.mean_unit_in_force()
        return self._format.in_force.columns

    async def ensure_current(self) -> int:
        """Identify the instrument again if the session is stale.

        Returns the client's generation that it answered on.
        """
        if not self._is_current():
            await self._establish()
        if self._format.in_doubt:
            await self._format.settle_doubt()
        return self._generation

    def learn_capabilities(
        self, capabilities: Capability, report: Mapping[Capability, CapabilityEvidence]
    ) -> None:
        """Store which optional hardware the instrument has, with the evidence."""
        self._info = replace(self._info, capabilities=capabilities, probe_report=report)

    async def compare_units(self, reported: tuple[ReportedUnit, ...]) -> None:
        """Compare units that the instrument has stated with its format; see :class:`FormatKeeper`.

        Raises:
            AlicatError: they differ, and the format could not be read again.
        """
        await self._format.compare(reported)

    def learn_full_scale(self, full_scale: Mapping[Statistic, FullScaleValue]) -> None:
        """Store the full scale of the controlled quantity, in the unit that is in force now."""
        self._info = replace(self._info, full_scale=full_scale)

    async def change_unit_id(self, new_unit_id: str, *, confirm: bool = False) -> None:
        """Give the instrument another letter; see :func:`change_unit_id`."""
        await change_unit_id(self, new_unit_id, confirm=confirm)

    async def change_baud_rate(self, baudrate: int, *, confirm: bool = False) -> None:
        """Change the instrument's baud rate; see :func:`change_baud_rate`."""
        await change_baud_rate(self, baudrate, confirm=confirm)

    async def identify_at(self, *, unit_id: str | None = None, baudrate: int | None = None) -> None:
        """Use another unit id or baud rate for the instrument from now on.

        Raises:
            AlicatIdentityError: another instrument answers there.
            AlicatError: no instrument answers, or the port cannot be opened at that baud rate.
        """
        if unit_id is not None:
            self._client.forget_unit(self.unit_id)
            self._info = replace(self._info, unit_id=unit_id)
            self._poll_command = f"{unit_id}\r".encode()
            self._stale = "it was given another unit id"
        if baudrate is not None:
            await self._client.change_baudrate(baudrate)
        self._retry.succeeded()
        await self._establish()
        self._moves += 1

    def decode_streamed(self, line: bytes) -> ParsedFrame:
        """The values of a streamed frame, with the unit's letter added in front."""
        return self._format.in_force.decoder(line)

    def invalidate(self, reason: str) -> None:
        """Mark the session as stale: the instrument must identify itself first."""
        if self._stale is None:
            self._stale = reason
            self._client.forget_unit(self.unit_id)

    def close(self) -> None:
        """End the session; the client stays open. May be called more than once."""
        if not self._closed:
            self._closed = True
            self._client.forget_unit(self.unit_id)

    # -- one question

    async def _execute_line(
        self, command: Command[Req, Resp], request: Req, timeout: float | None
    ) -> Exchange[Resp]:
        number: ProvenNumber | None = None
        if command.number:
            request, number = await self._with_proof(command, request)
        if timeout is not None:
            check_seconds(timeout)
        data = await self._prepare(command, request)
        exchange = await self._attempt(
            command, request, data, lambda: self._ask(command, request, data, timeout)
        )
        reported = command.reported_units(request, exchange.value)
        if number is not None:
            with suppress(AlicatError):  # then the format stays in doubt, and the answer decides
                await self._format.compare(reported)
            self._proof.confirm(number, next((unit.label for unit in reported), None))
        elif not command.invalidates_format(request):
            await self._format.compare(reported)
        return exchange

    async def _with_proof(
        self, command: CommandSpec[Any], request: Req
    ) -> tuple[Req, ProvenNumber | None]:
        """The request with a proof of its number's unit, and that number, if it states one."""
        number = getattr(request, command.number)
        if number is None or isinstance(number, ProvenNumber):
            return request, number
        self._admit(command, request)
        if not number:
            return request, None  # zero is zero in every unit
        number = await self._proof.prove(float(number), None)
        # Requests are dataclasses, which their type variable cannot say.
        changed: Any = replace(request, **{command.number: number})  # type: ignore[type-var]
        return changed, number

    async def _prepare(self, command: CommandSpec[Req], request: Req) -> bytes:
        """Return the bytes of a request that may be sent, once the unit is identified."""
        self._admit(command, request)
        if not self._is_current():
            await self._establish()
        data = command.encode(self._context(), request)
        if command.saves(request):
            self._wear.record(command.name, self.unit_id, self.port_label)
        return data

    def _admit(self, command: CommandSpec[Req], request: Req) -> None:
        """Refuse what the instrument does not have, wrong arguments, missing confirmations."""
        try:
            self._admission.check(command, self._info)
        except AlicatError as error:
            error.context = self.error_context(command)
            raise
        command.arguments(request, self._context())
        loss = command.confirm(request)
        if loss:
            raise AlicatValidationError(
                f"{command.name} on unit {self.unit_id} was not sent: {loss}; repeat it with "
                "confirm=True",
                context=self.error_context(command),
            )

    async def _attempt(
        self,
        command: CommandSpec[Req],
        request: Req,
        data: bytes,
        ask: Callable[[], Awaitable[T]],
    ) -> T:
        """Send a request, repeat one that only reads after a timeout, and handle failures."""
        changes = command.changes(request)
        try:
            try:
                answer = await ask()
            except AlicatTimeoutError as error:
                if changes:
                    raise
                await self._note_failure(error)
                if not self._is_current():
                    raise
                answer = await ask()
        except AlicatError as error:
            error.context = error.context.merged(
                command_name=command.name,
                firmware=self._info.firmware,
                device_kind=self._info.kind,
            )
            await self._note_failure(error)
            raise
        self._silences = 0
        if changes:
            self.tell(command.event, f"{command.name}: {data.decode('ascii').strip()}")
            if command.invalidates_format(request):
                before = self._setpoint_statistic()
                if not self._is_current():
                    await self._establish()
                await self._format.refresh()
                chosen = answer.value if isinstance(answer, Exchange) else answer
                self._proof.mean_chosen_unit(
                    chosen.label if isinstance(chosen, UnitSetting) else None, before
                )
        return answer

    def _ask(
        self, command: Command[Req, Resp], request: Req, data: bytes, timeout: float | None
    ) -> Awaitable[Exchange[Resp]]:
        context = self._context()
        decode = command.decode
        allowed = self._timeout if timeout is None else timeout
        number = getattr(request, command.number) if command.number else None
        check: Callable[[], None] | None = None
        if isinstance(number, ProvenNumber):
            check = partial(self._proof.check, number)
        elif command.invalidates_format(request):
            check = self._format.void_proofs
        return self._client.exchange(
            data,
            lambda line: decode(line, request, context),
            timeout=allowed + command.patience_s(request),
            letterless=command.identity is ReplyIdentity.LETTERLESS,
            generation=self._generation,
            reads=not command.changes(request),
            check=check,
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

    async def _note_failure(self, error: AlicatError) -> None:
        """Update what is known about the instrument after a failure."""
        self._last_error = error.context
        if isinstance(error, AlicatConnectionError):
            if self._client.can_reopen:
                self._lose(str(error))
        elif isinstance(error, AlicatTimeoutError):
            self._silences += 1
            limit = self._config.silences_before_identifying
            if limit and self._silences >= limit:
                self._lose(f"it did not answer {self._silences} requests in a row")
        elif isinstance(error, UnseenGasError):
            pass
        elif isinstance(error, AlicatParseError):
            await self._format.frame_did_not_fit()

    def _setpoint_statistic(self) -> Statistic | None:
        field = self.data_frame_format.setpoint_field
        return None if field is None else field.statistic

    def _lose(self, reason: str) -> None:
        if self._stale is None:
            self.invalidate(reason)
            self.tell(EventKind.CONNECTION_LOST, reason)

    # -- being the same instrument

    def _is_current(self) -> bool:
        return (
            self._stale is None and self._generation == self._client.generation and not self._closed
        )

    async def _establish(self) -> None:
        """Identify the instrument, and continue only if it is the one that was opened."""
        if self._closed:
            raise AlicatConnectionError(
                f"unit {self.unit_id} on {self.port_label} is closed; open the device again",
                context=self.error_context(),
            )
        unit = ord(self.unit_id)
        if not self._establishing.try_acquire(unit):
            await self._establishing.acquire(unit)
        try:
            if self._is_current():
                return
            if (wait := self._retry.remaining()) > 0:
                raise AlicatConnectionError(
                    f"unit {self.unit_id} on {self.port_label} is away ({self._reason()}); it is "
                    f"tried again in {max(0.1, wait):.1f} s",
                    context=self.error_context(),
                )
            client = self._client
            try:
                generation, found = await identify_again(
                    client,
                    self._info,
                    timeout=self._timeout,
                    known=self._format.in_force,
                    context=self.error_context(),
                )
            except AlicatError as error:
                self._last_error = error.context
                self._retry.failed()
                raise
            away = self._reason()
            self._generation = generation
            self._stale = None
            self._silences = 0
            self._format.void_proofs()  # it may have lost its power, and a unit with it
            self._retry.succeeded()
            client.line_is_good()
            self.tell(EventKind.RECONNECTED, f"it is back after {away}")
            await self._format.take(found)
        finally:
            self._establishing.release()

    def _reason(self) -> str:
        return self._stale or "the line was opened again"

    def _context(self) -> CommandContext:
        # Kept from one question to the next: each needs it three times.
        facts = self._info, self._format.in_force
        if self._context_facts != facts:
            self._command_context = _context_of(*facts)
            self._context_facts = facts
        return self._command_context

    def error_context(self, command: CommandSpec[Any] | None = None) -> ErrorContext:
        """The context of this session's errors."""
        return self._info.error_context(
            self.port_label,
            command_name=None if command is None else command.name,
            command_media=None if command is None else command.media,
        )

    # -- telling

    def reading_of(self, exchange: Exchange[ParsedFrame]) -> Reading:
        """Return the reading of a frame: its values, the units in force and its times."""
        return self._format.in_force.reading_of(exchange)

    def tell(self, kind: EventKind, message: str, data: Mapping[str, object] | None = None) -> None:
        """Call the subscribers with an event."""
        self._subscribers.tell(DeviceEvent.now(kind, self.unit_id, message, data))
