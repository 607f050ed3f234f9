"""One bus, one question at a time, and no answer believed that could be an older one.

The protocol numbers nothing: a reply does not tell which question it answers. Two polls of one
unit are answered by two lines of the same shape, so if the first answer comes after its question
was given up, it passes for the answer to the second, and from then on every answer is one
question old, silently and for ever. That is the failure that this module exists to prevent.

**The rule.** A unit that was sent a question and whose answer has not been accepted is *in debt*:
a line of it may still come. An ordinary question is never put to a unit in debt. First the debt
is settled:

1. *By proof.* A unit answers in the order in which it was asked, and the line keeps order. So a
   question is asked whose answer looks like no other (the firmware version: the very line that
   this unit gave when it was identified). All that comes before that line is thrown away, and
   when it has come, nothing older can follow. This holds however late the old answer is, and
   costs one short exchange (4 ms at 115200 baud).
2. *By time*, where no proof is known (before a unit is identified, or if its firmware has none):
   wait until ``late_reply_window`` after the last question of the debt, throwing away what
   comes. This leans on a bound for the instrument's latency, which is why it is the second
   choice.

Debts are per unit, because replies carry the unit's letter: while B owes an answer, A can be
asked; B's late line is known by its letter and skipped. A debt begins before the first byte of a
question is sent and ends only when its answer has been accepted, so a cancelled task, a crash in
a parser and a garbled line all leave it standing.

Some answers carry no letter (``DV``). Such a question is asked only when no unit of the bus owes
anything: the debts of all units are settled first, by proof or by time. An answer without a
letter that comes late is known by that, and skipped while its unit is in debt.

**A lost line ends every debt**, and everything else that was known: the port that is opened again
may lead to other instruments. The client counts its connections in :attr:`generation`, and a
question that was meant for an earlier one is never sent.

An answer to a proof that itself came late can only be a version line, which no other question
accepts: it is recognised and skipped.

What this does not cover: a well-formed reply that nobody asked for (a doubled one) is seen, and
starts a proof, if it waits in the input before the next question. A serial port can tell that; a
stream that cannot (``input_waiting`` is ``None``) may deliver it as the answer.

*Rejected:* flushing the input before each question (a late reply comes after the flush);
flushing after each timeout (the same); a fixed pause after a timeout (either too short for the
slow reply, or blind time for the whole bus at every dead unit); counting outstanding replies
(one that was lost shifts the count just as one that is late).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, monotonic_ns, time_ns
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import anyio
import anyio.lowlevel

from .errors import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
    ErrorContext,
)
from .framing import LineBuffer
from .replies import refuse_line
from .retry_delay import RetryDelay
from .transport import Transport, idle_gap_for

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["AlicatProtocolClient", "BusStatistics", "Exchange"]

T = TypeVar("T")

_LOST = (OSError, EOFError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
_CHUNK = 4096
_RESTLESS_AFTER_S = 1.0
_FIRST_RETRY_S = 0.25
_LAST_RETRY_S = 10.0
_REOPEN_TIMEOUT_S = 5.0
_SENDING_GRACE_S = 1.0
_BEGINS_LETTERLESS = tuple(bytes([code]) for code in b"+-0123456789")


class Exchange(NamedTuple, Generic[T]):
    """An accepted answer and when it was asked and complete, on both clocks, in nanoseconds."""

    value: T
    requested_monotonic_ns: int
    requested_unix_ns: int
    received_monotonic_ns: int
    received_unix_ns: int


@dataclass(frozen=True, slots=True)
class BusStatistics:
    """What happened on a bus since it was opened."""

    exchanges: int
    """Answers accepted."""
    timeouts: int
    """Questions given up."""
    malformed: int
    """Questions that ended with a line of the wrong shape or unit."""
    resyncs: int
    """Debts that had to be settled before a unit could be asked again."""
    discarded_lines: int
    """Lines thrown away: late, foreign, echoed or garbled."""
    reconnects: int = 0
    """Times that the line was lost and opened again."""


@dataclass(frozen=True, slots=True)
class _Proof:
    command: bytes
    last_line: bytes


class AlicatProtocolClient:
    """Asks the instruments of one port, one command in flight.

    Several devices may share a client; their questions queue in the order in which they came.
    For one event loop's tasks; not thread-safe. A cancelled question releases the bus and leaves
    its unit in debt (see the module's text), so nothing is mixed up by it.

    Args:
        transport: The byte stream. The client closes it in :meth:`aclose`.
        default_timeout: Seconds for one reply line, from the sending of its command.
        multiline_timeout: Seconds until the first row of a table.
        late_reply_window: Seconds after a question beyond which no answer to it will come any
            more; used only for units that have no proof. Default: twice ``default_timeout``, at
            least half a second.
        idle_timeout: Seconds of silence that end a table. Default: from the baud rate.
        reconnect: Opens the line again after it was lost (see :meth:`reopen`). Without it, a lost
            line stays lost.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        default_timeout: float = 0.5,
        multiline_timeout: float = 1.0,
        late_reply_window: float | None = None,
        idle_timeout: float | None = None,
        reconnect: Callable[[], Awaitable[Transport]] | None = None,
    ) -> None:
        self._default_timeout = default_timeout
        self._multiline_timeout = multiline_timeout
        self._window = late_reply_window or max(0.5, 2 * default_timeout)
        self._stated_idle = idle_timeout
        self._reconnect = reconnect
        self._lock = anyio.Lock(fast_acquire=True)
        self._proofs: dict[int, _Proof] = {}
        self._closed = False
        self._generation = 0
        self._retry = RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)
        self._exchanges = self._timeouts = self._malformed = 0
        self._resyncs = self._discarded = 0
        self._use(transport)

    def _use(self, transport: Transport) -> None:
        """Begin with a line of which nothing is known."""
        self._transport = transport
        self._send = transport.send
        self._receive = transport.receive
        self._waiting = transport.input_waiting
        self._idle = self._stated_idle or idle_gap_for(transport.baudrate)
        self._lines = LineBuffer()
        self._debts: dict[int, float] = {}
        self._letterless_debts: set[int] = set()
        self._proofs.clear()
        self._last_byte_at = -math.inf
        self._failure: str | None = None
        self._streamed_lines = 0
        self._streaming: str | None = None

    # -- what one can ask about it

    @property
    def transport(self) -> Transport:
        """The byte stream underneath."""
        return self._transport

    @property
    def label(self) -> str:
        """The port's name."""
        return self._transport.label

    @property
    def idle_timeout(self) -> float:
        """Seconds of silence that end a table."""
        return self._idle

    @property
    def statistics(self) -> BusStatistics:
        """What happened on this bus so far."""
        return BusStatistics(
            self._exchanges,
            self._timeouts,
            self._malformed,
            self._resyncs,
            self._discarded,
            self._generation,
        )

    @property
    def generation(self) -> int:
        """How often the line was opened again. What was learnt of a unit holds for one of them."""
        return self._generation

    @property
    def is_open(self) -> bool:
        """Whether questions can be asked: the line is neither closed nor lost."""
        return self._usable()

    @property
    def can_reopen(self) -> bool:
        """Whether :meth:`reopen` knows how to open the line again."""
        return self._reconnect is not None and not self._closed

    def in_debt(self, unit_id: str) -> bool:
        """Whether an answer of this unit is outstanding."""
        return ord(unit_id) in self._debts

    def register_proof(self, unit_id: str, command: bytes, last_line: bytes) -> None:
        """State a question to ``unit_id`` and the line that ends its answer and no other.

        The line must be the same at every asking (the firmware version is).
        """
        self._proofs[ord(unit_id)] = _Proof(command, last_line)

    def forget_unit(self, unit_id: str) -> None:
        """Drop what is known of a unit: it may be another instrument when it comes back."""
        self._proofs.pop(ord(unit_id), None)

    # -- the line itself

    async def reopen(self) -> None:
        """Open the line again if it was lost; does nothing while it is open.

        After a failure the next try is made 0.25 s later at the earliest, then 0.5 s, and so on up
        to 10 s; a call before that time fails at once. All debts and proofs are forgotten, and
        :attr:`generation` counts on: who is at the other end now must be asked.

        Raises:
            AlicatConnectionError: the line cannot be opened (yet), or the client is closed.
        """
        if self._usable():
            return
        async with self._lock:
            if self._usable():
                return
            reconnect = self._reconnect
            if self._closed or reconnect is None:
                raise self._lost(None)
            if (wait := self._retry.remaining()) > 0:
                raise AlicatConnectionError(
                    f"the connection to {self.label} is lost ({self._failure}); it is tried again "
                    f"in {wait:.1f} s",
                    context=ErrorContext(port=self.label),
                )
            try:
                with anyio.CancelScope(shield=True), suppress(*_LOST):
                    await self._transport.aclose()
                with anyio.fail_after(_REOPEN_TIMEOUT_S):
                    transport = await reconnect()
            except (AlicatError, *_LOST) as error:
                self._retry.failed()
                if isinstance(error, AlicatError):
                    raise
                raise self._lost(error) from error
            if not self.can_reopen:
                # Closed meanwhile.
                with anyio.CancelScope(shield=True):
                    await transport.aclose()
                raise self._lost(None)
            self._use(transport)
            self._generation += 1

    def _usable(self) -> bool:
        return not self._closed and self._failure is None

    def line_is_good(self) -> None:
        """State that an instrument has answered: the next loss is retried at once again."""
        self._retry.succeeded()

    # -- asking

    async def exchange(
        self,
        command: bytes,
        decode: Callable[[bytes], T],
        *,
        timeout: float | None = None,
        unmistakable: bool = False,
        letterless: bool = False,
        generation: int | None = None,
    ) -> Exchange[T]:
        """Send ``command`` and return its one-line answer, decoded and stamped.

        Args:
            command: The whole command; its first byte is the unit id, its last a carriage
                return.
            decode: Makes a value of a line, or raises an :class:`AlicatProtocolError` for every
                line that cannot be the answer. It decides what is believed, so it must check
                unit id, number and form of all fields.
            timeout: Seconds from the end of sending to the end of the line.
            unmistakable: No answer to another question passes ``decode``. Lines that do not pass
                are then skipped until the timeout, and the answer settles the unit's debt.
            letterless: The answer does not begin with the unit's letter. It is asked only when
                no unit of the bus owes an answer; their debts are settled first.
            generation: The :attr:`generation` that the question is meant for. On another one
                nothing is sent.

        Raises:
            AlicatTimeoutError: no answer in time.
            AlicatCommandRejectedError: the instrument does not take the command.
            AlicatUnitIdMismatchError: another unit, which was not asked, answered.
            AlicatStreamingModeError: an instrument on the port is streaming.
            AlicatParseError: the answer does not have the right form.
            AlicatConnectionError: the port is lost or closed, or was opened again since.
        """
        async with self._lock:
            # A task that is cancelled already shall not set a valve in motion any more: the
            # sending below is shielded and would not notice.
            await anyio.lowlevel.checkpoint_if_cancelled()
            self._check_question(generation)
            if self._untidy():
                if letterless:
                    await self._settle_everyone(command[0])
                else:
                    await self._prepare(command[0], unmistakable)
            return await self._transact(
                command,
                decode,
                self._default_timeout if timeout is None else timeout,
                unmistakable,
                letterless=letterless,
            )

    async def query_line(self, command: bytes, *, timeout: float | None = None) -> bytes:
        """Send a raw command and return its answer line, checked for the unit id only.

        Prefer the devices' methods: of a raw line nobody checks the form.
        """
        unit = chr(command[0])

        def decode(line: bytes) -> bytes:
            if line[:1] == command[:1] and line[1:2] == b" " and line[1:].strip() != b"?":
                return line
            refuse_line(line, unit, wanted=f"an answer to {command!r}")

        return (await self.exchange(command, decode, timeout=timeout)).value

    async def query_lines(
        self,
        command: bytes,
        is_row: Callable[[bytes], bool],
        is_last: Callable[[bytes], bool],
        *,
        wanted: str,
        first_timeout: float | None = None,
        idle_timeout: float | None = None,
        generation: int | None = None,
    ) -> list[bytes]:
        """Send ``command`` and return the rows of the table that it answers with.

        Tables have no end mark, so the end is the row that ``is_last`` knows. Silence of
        ``idle_timeout`` after any row may be the end as well, or a pause: the unit then proves
        that nothing follows (what does, up to the proof, are rows), and only where no proof is
        known is the silence believed. A row must look like nothing but a row: like an
        unmistakable exchange, this may be asked of a unit in debt and settles it. A unit that
        gives no proof stays in debt, and the rows that came are returned.

        Raises:
            AlicatTimeoutError: not a single row came in time.
            AlicatProtocolError: something else came (see :meth:`exchange`).
            AlicatConnectionError: the port is lost or closed.
        """
        unit = command[0]
        unit_id = chr(unit)
        rows: list[bytes] = []
        gap = self._idle if idle_timeout is None else idle_timeout

        def take_row(line: bytes) -> bool:
            if line[0] != unit or not is_row(line):
                return False
            rows.append(line)
            return True

        def decode(line: bytes) -> None:
            if not take_row(line):
                refuse_line(line, unit_id, wanted=wanted)
            if not is_last(line):
                scope.deadline = anyio.current_time() + gap
                raise _AnotherRow

        async with self._lock:
            self._check_question(generation)
            if self._untidy():
                await self._prepare(unit, True)
            scope = anyio.CancelScope()
            timeout = self._multiline_timeout if first_timeout is None else first_timeout
            try:
                await self._transact(command, decode, timeout, True, scope=scope)
            except AlicatTimeoutError:
                if not rows:
                    raise
                self._timeouts -= 1
                self._exchanges += 1
                if unit in self._proofs:
                    await self._prove_end(unit, take_row)
                else:
                    self._acquit(unit)
        return rows

    async def stop_stream(self, unit_id: str, *, old_firmware: bool = False) -> None:
        """Make the instrument that streams on this port stop, and give it ``unit_id``.

        A streaming instrument has no letter, and the command that stops it gives it one. An
        instrument that does not stream ignores it.

        Raises:
            AlicatStreamingModeError: the line does not fall silent.
            AlicatConnectionError: the port is lost or closed.
        """
        async with self._lock:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 1.0):
                await self._put(f"@@{'=' if old_firmware else ' '}{unit_id}\r".encode())
            self._last_byte_at = monotonic()
            await self._drain()

    async def start_stream(self, unit_id: str, *, generation: int | None = None) -> None:
        """Make a unit send its frames by itself, and latch the port until :meth:`end_stream`.

        Every unit of the bus settles its debt first: streamed frames bear no letter.

        Raises:
            AlicatStreamingModeError: a unit of this port streams already.
            AlicatConnectionError: the port is lost or closed, or was opened again since.
        """
        async with self._lock:
            self._check_question(generation)
            if self._untidy():
                await self._settle_everyone(ord(unit_id))
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 1.0):
                self._streaming = unit_id
                await self._put(f"{unit_id}@ @\r".encode())

    async def next_streamed_line(self) -> tuple[bytes, int, int]:
        """The next line that a streaming unit sends, and when it was complete: nanoseconds on the
        monotonic clock and since 1970.

        Raises:
            AlicatConnectionError: the port is lost or closed.
        """
        lines = self._lines
        try:
            while (line := lines.next_line()) is None:
                lines.feed(await self._receive(_CHUNK))
        except _LOST as error:
            raise self._lost(error) from error
        return line, monotonic_ns(), time_ns()

    async def end_stream(self, unit_id: str) -> None:
        """Stop the stream and lift the latch; the unit has its letter back. A lost line is let go
        without a word, since there is nothing to stop."""
        try:
            for old_firmware in (False, True):
                try:
                    await self.stop_stream(unit_id, old_firmware=old_firmware)
                    break
                except AlicatStreamingModeError:
                    if old_firmware:
                        raise
                except AlicatConnectionError:
                    break
        finally:
            self._streaming = None

    async def aclose(self) -> None:
        """Close the port. May be called more than once."""
        self._closed = True
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _check_question(self, generation: int | None) -> None:
        if generation is not None and generation != self._generation:
            raise self._opened_again()
        if self._streaming is not None:
            raise AlicatStreamingModeError(
                f"unit {self._streaming} on {self.label} streams; leave its stream before anything "
                "is asked on this port",
                context=ErrorContext(port=self.label, unit_id=self._streaming),
            )

    # -- one transaction; the lock is held by the caller

    async def _transact(
        self,
        command: bytes,
        decode: Callable[[bytes], T],
        timeout: float,
        unmistakable: bool,
        *,
        letterless: bool = False,
        scope: anyio.CancelScope | None = None,
    ) -> Exchange[T]:
        unit = command[0]
        was_in_debt = unit in self._debts
        lines = self._lines
        skipped: AlicatProtocolError | None = None
        sent = False
        self._streamed_lines = 0
        if not self.is_open:
            raise self._lost(None)
        # Shielded while sending: half a command in an instrument's buffer would join the next
        # one ("ALS 1" + "A"), and what that does nobody knows.
        if scope is None:
            scope = anyio.CancelScope()
        # The port is given longer than the instrument: a machine that is late for a moment is not a
        # port that takes nothing, and what follows from that is a lost connection.
        scope.deadline = anyio.current_time() + timeout + _SENDING_GRACE_S
        scope.shield = True
        self._debts[unit] = monotonic()
        if letterless:
            self._letterless_debts.add(unit)
        requested_unix_ns = time_ns()
        requested_ns = monotonic_ns()
        try:
            with scope:
                await self._send(command)
                sent = True
                scope.shield = False
                scope.deadline = anyio.current_time() + timeout
                while True:
                    while (line := lines.next_line()) is None:
                        lines.feed(await self._receive(_CHUNK))
                    received_ns = monotonic_ns()
                    received_unix_ns = time_ns()
                    try:
                        value = decode(line)
                    except _AnotherRow:
                        continue
                    except AlicatProtocolError as error:
                        if self._may_skip(line, command, error, unmistakable, was_in_debt):
                            if line != command[:-1]:
                                skipped = error
                            self._discarded += 1
                            continue
                        raise
                    self._acquit(unit)
                    self._exchanges += 1
                    return Exchange(
                        value, requested_ns, requested_unix_ns, received_ns, received_unix_ns
                    )
        except AlicatProtocolError as error:
            self._malformed += 1
            self._last_byte_at = monotonic()
            self._add_context(error, command)
            raise
        except _LOST as error:
            raise self._lost(error) from error
        if not sent:
            raise self._stall()
        self._timeouts += 1
        if skipped is not None:
            self._add_context(skipped, command)
            raise skipped
        raise AlicatTimeoutError(
            f"unit {chr(unit)} on {self.label} did not answer {command!r} within {timeout:g} s"
            f"{self._at_baudrate()}: check that it is powered and connected, and that its unit id "
            "and baud rate are these",
            context=ErrorContext(
                command_bytes=command,
                unit_id=chr(unit),
                port=self.label,
                baudrate=self._transport.baudrate,
                elapsed_s=(monotonic_ns() - requested_ns) / 1e9,
            ),
        )

    def _may_skip(
        self,
        line: bytes,
        command: bytes,
        error: AlicatProtocolError,
        unmistakable: bool,
        was_in_debt: bool,
    ) -> bool:
        """Whether a line that is not the answer may be passed over and the answer awaited."""
        unit = command[0]
        if line == command[:-1]:
            return True  # two-wire adapters hear themselves
        proof = self._proofs.get(unit)
        if proof is not None and line == proof.last_line:
            return True
        if isinstance(error, AlicatUnitIdMismatchError):
            return unmistakable or (error.actual is not None and ord(error.actual) in self._debts)
        if self._letterless_debts - {unit} and line[:1] in _BEGINS_LETTERLESS:
            return True  # an answer without a letter that comes late
        if isinstance(error, AlicatStreamingModeError):
            # One may be an old reply that lost its first letter. Two are a stream.
            self._streamed_lines += 1
            return unmistakable and self._streamed_lines < 2
        if isinstance(error, AlicatCommandRejectedError):
            # A bare "?" does not tell who says it: with a debt open it may be an old one.
            if was_in_debt or len(self._debts) > 1:
                return unmistakable
            self._acquit(unit)
            return False
        return unmistakable

    # -- trust

    def _untidy(self) -> bool:
        """Whether somebody owes an answer, or bytes are there that nobody asked for."""
        return bool(self._debts) or self._has_strays()

    def _has_strays(self) -> bool:
        try:
            return bool(len(self._lines) or self._waiting())
        except _LOST as error:
            raise self._lost(error) from error

    async def _prepare(self, unit: int, unmistakable: bool) -> None:
        """Get the line silent, and ``unit`` out of debt unless the question does that itself."""
        stray = self._has_strays()
        if not stray and unit not in self._debts:
            return  # others owe; their lines bear their letters
        if stray:
            # Bytes that nobody asked for. Whose they are is unknown; treat the unit that is
            # asked next as if they were its own.
            self._debts.setdefault(unit, monotonic())
            self._last_byte_at = monotonic()
        try:
            await self._drain()
            if unit in self._debts and not unmistakable:
                self._resyncs += 1
                await self._settle(unit)
        except AlicatError:
            raise  # a timeout of ours is an OSError, too
        except _LOST as error:
            raise self._lost(error) from error

    async def _settle(self, unit: int) -> None:
        if unit in self._proofs:
            await self._prove(unit)
        else:
            await self._settle_by_time(unit)

    async def _settle_by_time(self, unit: int) -> None:
        while (remaining := self._debts[unit] + self._window - monotonic()) > 0:
            with anyio.move_on_after(remaining):
                self._lines.feed(await self._receive(_CHUNK))
                self._last_byte_at = monotonic()
                self._discard()
        await self._drain()
        self._acquit(unit)

    async def _settle_everyone(self, unit: int) -> None:
        """Get every unit of the bus out of debt, before a question whose answer has no letter.

        A unit that gives no proof (it is switched off, say) is waited for: beyond the late reply
        window nothing of it comes any more.
        """
        if self._has_strays():
            self._debts.setdefault(unit, monotonic())
            self._last_byte_at = monotonic()
        try:
            await self._drain()
            for other in tuple(self._debts):
                self._resyncs += 1
                if other in self._proofs:
                    with suppress(AlicatTimeoutError, AlicatProtocolError):
                        await self._prove(other)
                        continue
                await self._settle_by_time(other)
        except AlicatError:
            raise
        except _LOST as error:
            raise self._lost(error) from error

    def _acquit(self, unit: int) -> None:
        """The unit owes nothing any more."""
        self._debts.pop(unit, None)
        self._letterless_debts.discard(unit)

    async def _prove(
        self, unit: int, take_row: Callable[[bytes], bool] = lambda line: False
    ) -> None:
        """Have the unit prove that nothing older follows; ``take_row`` sees what came before."""
        proof = self._proofs[unit]

        def accept(line: bytes) -> None:
            if line == proof.last_line:
                return
            if take_row(line):
                raise _AnotherRow
            refuse_line(line, chr(unit), wanted="the line that it identified itself with")

        await self._transact(proof.command, accept, self._default_timeout, True)
        self._exchanges -= 1

    async def _prove_end(self, unit: int, take_row: Callable[[bytes], bool]) -> None:
        """Take the rows that still come before the unit's proof, if it gives one."""
        try:
            await self._prove(unit, take_row)
        except AlicatStreamingModeError:
            raise
        except (AlicatTimeoutError, AlicatProtocolError):
            pass  # the debt stands

    async def _drain(self) -> None:
        """Throw away what comes until the line has been silent for the idle time."""
        restless_at = monotonic() + _RESTLESS_AFTER_S
        self._discard()
        while True:
            waiting = self._waiting()
            wait = self._idle
            if waiting is not None:
                # The silence before this call counts too, since bytes in it would be seen.
                wait -= monotonic() - self._last_byte_at
            chunk = b""
            if waiting:
                chunk = await self._receive(_CHUNK)
            elif wait > 0:
                with anyio.move_on_after(wait):
                    chunk = await self._receive(_CHUNK)
            if not chunk:
                return
            self._lines.feed(chunk)
            self._last_byte_at = monotonic()
            self._discard()
            if monotonic() > restless_at:
                raise AlicatStreamingModeError(
                    f"the line {self.label} does not fall silent: an instrument on it is "
                    "streaming, or another program is asking; stop it with stop_stream()",
                    context=ErrorContext(port=self.label, raw_response=chunk),
                )

    def _discard(self) -> None:
        try:
            while self._lines.next_line() is not None:
                self._discarded += 1
        except AlicatParseError:
            self._discarded += 1
        if self._lines.clear():
            self._discarded += 1

    # -- bytes and words

    async def _put(self, data: bytes) -> None:
        try:
            await self._send(data)
        except _LOST as error:
            raise self._lost(error) from error

    def _at_baudrate(self) -> str:
        return f" at {self._transport.baudrate} baud" if self._transport.baudrate else ""

    def _add_context(self, error: AlicatProtocolError, command: bytes) -> None:
        error.context = error.context.merged(
            command_bytes=command,
            port=self.label,
            baudrate=self._transport.baudrate,
            unit_id=chr(command[0]),
        )

    def _stall(self) -> AlicatConnectionError:
        # Part of the command may stand in an instrument's buffer: another would be glued to it.
        self._failure = "it took no bytes"
        return AlicatConnectionError(
            f"the port {self.label} took no bytes: check its flow control settings and the "
            f"adapter{self._then()}",
            context=ErrorContext(port=self.label),
        )

    def _lost(self, error: BaseException | None) -> AlicatConnectionError:
        if self._closed:
            message = f"the port {self.label} is closed; open the device again"
        else:
            if error is not None:
                self._failure = str(error) or type(error).__name__
            message = (
                f"the connection to {self.label} is lost ({self._failure}): check the cable and "
                f"the adapter{self._then()}"
            )
        return AlicatConnectionError(message, context=ErrorContext(port=self.label))

    def _then(self) -> str:
        return "; it is opened again" if self._reconnect else ", then open the device again"

    def _opened_again(self) -> AlicatConnectionError:
        return AlicatConnectionError(
            f"the connection to {self.label} was lost and opened again; the unit must be "
            "identified before it is asked",
            context=ErrorContext(port=self.label),
        )


class _AnotherRow(Exception):
    """A row of a table came and more are expected."""
