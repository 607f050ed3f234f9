"""The client of a bus: one question at a time, and no answer that could belong to an older one.

:mod:`penstock.alicat._bus.outstanding` explains how older answers are kept out, and
:mod:`penstock.alicat._bus.scheduler` decides whose question is next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic, monotonic_ns, time_ns
from typing import TypeVar

from penstock.alicat._bus.line_client import LineClient
from penstock.alicat._bus.outstanding import Row
from penstock.alicat._bus.replies import BusStatistics, Exchange, refuse_line
from penstock.alicat._bus.scheduler import BusScheduler
from penstock.alicat._bus.transaction import Transactions
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._bus.wire import CHUNK, LOST, Wire, check_seconds
from penstock.alicat.errors import (
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    ErrorContext,
)
from penstock.alicat.transport import Transport

__all__ = ["AlicatProtocolClient", "BusStatistics", "Exchange"]

T = TypeVar("T")

#: Seconds until an instrument answers to its new letter.
_RENAME_GRACE_S = 0.2


class AlicatProtocolClient(LineClient):
    """Asks the instruments of one port, one command in flight.

    Several devices may share a client; a :class:`BusScheduler` decides whose question is next. For
    the tasks of one event loop; not thread-safe unless ``waiting`` is that of blocking calls. A
    cancelled question releases the bus and leaves its unit in debt, so a late answer to it is not
    taken for another one.

    Args:
        transport: The byte stream. The client closes it in :meth:`aclose`.
        default_timeout: Seconds for one reply line, from the sending of its command.
        multiline_timeout: Seconds until the first row of a table.
        late_reply_window: Seconds after which no answer to a question can still arrive; used only
            for units that have no proof. Default: twice ``default_timeout``, at least half a
            second.
        idle_timeout: Seconds of silence that end a table. Default: from the baud rate.
        reconnect: Opens the line again after it was lost (see :meth:`reopen`). Without it, a lost
            line stays lost.
        reopen_at: Opens the line at another baud rate, which ``reconnect`` uses from then on.
        waiting: The primitives that its coroutines wait with. Default: on the running event loop.
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
        reopen_at: Callable[[int], Awaitable[Transport]] | None = None,
        waiting: Waiting = ANYIO,
    ) -> None:
        super().__init__(reconnect, waiting)
        check_seconds(default_timeout, "default_timeout")
        check_seconds(multiline_timeout, "multiline_timeout")
        for name, seconds in (
            ("late_reply_window", late_reply_window),
            ("idle_timeout", idle_timeout),
        ):
            if seconds is not None:
                check_seconds(seconds, name)
        self._default_timeout = default_timeout
        self._multiline_timeout = multiline_timeout
        self._window = late_reply_window or max(0.5, 2 * default_timeout)
        self._stated_idle = idle_timeout
        self._reopen_at = reopen_at
        self._raw_commands = 0
        self._use(transport)

    def _use(self, transport: Transport) -> None:
        self._wire = Wire(
            transport,
            self._waiting,
            self._counts,
            idle_timeout=self._stated_idle,
            reopens=self._reconnect is not None,
        )
        transactions = Transactions(
            self._wire,
            self._waiting,
            self._counts,
            default_timeout=self._default_timeout,
            late_reply_window=self._window,
        )
        self._outstanding = transactions.outstanding
        self._transact = transactions.transact
        self._streaming: str | None = None

    # -- what one can ask about it

    @property
    def transport(self) -> Transport:
        """The byte stream underneath."""
        return self._wire.transport

    @property
    def idle_timeout(self) -> float:
        """Seconds of silence that end a table."""
        return self._wire.timing.idle

    @property
    def scheduler(self) -> BusScheduler:
        """Decides which question is next."""
        return self._scheduler

    @property
    def raw_commands(self) -> int:
        """Counts the raw commands, which may have changed any setting, at beginning and end."""
        return self._raw_commands

    @property
    def can_change_baudrate(self) -> bool:
        """Whether :meth:`change_baudrate` knows how to open the line."""
        return self._reopen_at is not None

    def in_debt(self, unit_id: str) -> bool:
        """Whether an answer of this unit is outstanding."""
        return ord(unit_id) in self._outstanding.owed

    def register_proof(self, unit_id: str, command: bytes, last_line: bytes) -> None:
        """Register a command whose answer ends with ``last_line``, as no other answer does.

        The line must be the same each time (the firmware version is).
        """
        self._outstanding.register_proof(ord(unit_id), command, last_line)

    def forget_unit(self, unit_id: str) -> None:
        """Drop what is known of a unit: it may be another instrument when it comes back."""
        self._outstanding.forget(ord(unit_id))

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
        reads: bool = False,
        poll: bool = False,
        check: Callable[[], None] | None = None,
    ) -> Exchange[T]:
        """Send ``command`` and return its one-line answer, decoded and stamped.

        Args:
            command: The whole command; its first byte is the unit id, its last a carriage
                return.
            decode: Makes a value of a line, or raises an :class:`AlicatProtocolError` for every
                line that cannot be the answer. Nothing else checks the line, so it must check unit
                id, number and form of all fields.
            timeout: Seconds from the end of sending to the end of the line, besides what the bytes
                of both take at the line's baud rate.
            unmistakable: No answer to another question passes ``decode``. Lines that do not pass
                are then skipped until the timeout, and the answer settles the unit's debt.
            letterless: The answer does not begin with the unit's letter. It is asked only when
                no unit of the bus owes an answer; their debts are settled first.
            generation: The :attr:`generation` that the question is meant for. On another one
                nothing is sent.
            reads: The command changes nothing in the instrument. It may then be sent for a task
                that is cancelled already; the task ends where it waits for the answer.
            poll: The command is a poll, which only reads: waiting commands go first.
            check: Called at the last moment, when no other question can come before this one. If
                it raises, nothing is sent.

        Raises:
            AlicatTimeoutError: no answer in time.
            AlicatCommandRejectedError: the instrument does not accept the command.
            AlicatUnitIdMismatchError: another unit, which was not asked, answered.
            AlicatStreamingModeError: an instrument on the port is streaming.
            AlicatParseError: the answer does not have the right form.
            AlicatConnectionError: the port is lost or closed, or was opened again since.
        """
        unit = command[0]
        scheduler = self._scheduler
        if not scheduler.try_acquire(unit, poll=poll):
            await scheduler.acquire(unit, poll=poll)
        try:
            # A task that is already cancelled must not move a valve: the sending below is shielded
            # and would not notice the cancellation.
            if not (reads or poll):
                await self._waiting.checkpoint_if_cancelled()
            self._check_question(generation)
            outstanding, wire = self._outstanding, self._wire
            if timeout is None:
                timeout = self._default_timeout
            answer: Exchange[T] | None
            plain = (reads or poll) and check is None and not letterless
            if plain and wire.exchange is not None and not (outstanding.owed or wire.lines):
                # The call that sends also looks whether bytes wait that nobody asked for. It does
                # not see the end of a TCP connection, after which nothing that changes something
                # may be sent.
                answer = await self._transact(
                    command, decode, timeout, unmistakable, refuse_strays=True
                )
                if answer is not None:
                    return answer
            if outstanding.untidy():
                if letterless:
                    await outstanding.settle_everyone(unit)
                else:
                    await outstanding.prepare(unit, unmistakable)
            if check is not None:
                check()
            answer = await self._transact(
                command, decode, timeout, unmistakable, letterless=letterless
            )
            assert answer is not None  # it was not told to look for strays
            return answer
        finally:
            scheduler.release()

    async def query_line(self, command: bytes, *, timeout: float | None = None) -> bytes:
        """Send a raw command and return its answer line, checked for the unit id only.

        Prefer the methods of the devices, which also check the form of the answer.
        """
        unit = chr(command[0])
        self._raw_commands += 1

        def decode(line: bytes) -> bytes:
            if line[:1] == command[:1] and line[1:2] == b" " and line[1:].strip() != b"?":
                return line
            refuse_line(line, unit, wanted=f"an answer to {command!r}")

        try:
            return (await self.exchange(command, decode, timeout=timeout)).value
        finally:
            self._raw_commands += 1

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

        Tables have no end mark, so ``is_last`` recognises the last row. Silence of ``idle_timeout``
        (counted from the last byte, not from the last row, which takes longer on a slow line) after
        another row is either the end or a pause. The unit then has to prove that nothing follows;
        lines that arrive before the proof are further rows. Without a known proof, the silence
        counts as the end. No other answer may look like a row: a table may therefore be requested
        from a unit in debt, and settles its debt. A unit that gives no proof stays in debt, and the
        rows received so far are returned.

        Raises:
            AlicatTimeoutError: not a single row came in time.
            AlicatProtocolError: something else came (see :meth:`exchange`).
            AlicatConnectionError: the port is lost or closed.
        """
        unit = command[0]
        unit_id = chr(unit)
        rows: list[bytes] = []
        gap = self._wire.timing.idle if idle_timeout is None else idle_timeout

        def take_row(line: bytes) -> bool:
            if line[0] != unit or not is_row(line):
                return False
            rows.append(line)
            return True

        another = Row.ANOTHER

        def decode(line: bytes) -> Row | None:
            if line[0] != unit or not is_row(line):
                refuse_line(line, unit_id, wanted=wanted)
            rows.append(line)
            return None if is_last(line) else another

        async with self._turn(unit):
            self._check_question(generation)
            outstanding = self._outstanding
            if outstanding.untidy():
                await outstanding.prepare(unit, True)
            timeout = self._multiline_timeout if first_timeout is None else first_timeout
            try:
                await self._transact(command, decode, timeout, True, gap=gap)
            except AlicatTimeoutError:
                if not rows:
                    raise
                self._counts.timeouts -= 1
                self._counts.exchanges += 1
                if outstanding.has_proof(unit):
                    await outstanding.prove_end(unit, take_row)
                else:
                    outstanding.acquit(unit)
        return rows

    async def stop_stream(self, unit_id: str, *, old_firmware: bool = False) -> None:
        """Stop the instrument that streams on this port. It gets the letter ``unit_id``.

        A streaming instrument has no letter, and the command that stops it gives it one. An
        instrument that does not stream ignores it.

        Raises:
            AlicatStreamingModeError: the line does not fall silent.
            AlicatConnectionError: the port is lost or closed.
        """
        async with self._turn(0):
            await self._wire.put(f"@@{'=' if old_firmware else ' '}{unit_id}\r".encode())
            self._wire.last_byte_at = monotonic()
            await self._wire.drain()

    async def start_stream(self, unit_id: str, *, generation: int | None = None) -> None:
        """Start the stream of a unit, and reserve the port for it until :meth:`end_stream`.

        All debts on the bus are settled first, because streamed frames carry no letter.

        Raises:
            AlicatStreamingModeError: a unit of this port streams already.
            AlicatConnectionError: the port is lost or closed, or was opened again since.
        """
        told = False
        try:
            async with self._turn(ord(unit_id)):
                self._check_question(generation)
                if self._outstanding.untidy():
                    await self._outstanding.settle_everyone(ord(unit_id))
                self._streaming, told = unit_id, True
                await self._wire.put(f"{unit_id}@ @\r".encode())
        except BaseException:
            if told:  # and nobody is going to read what it sends
                await self._waiting.finish(lambda: self.end_stream(unit_id))
            raise

    async def next_streamed_line(self) -> tuple[bytes, int, int]:
        """Return the next line that a streaming unit sends, and when it was complete.

        The two times are in nanoseconds: on the monotonic clock, and since 1970.

        Raises:
            AlicatConnectionError: the port is lost or closed.
        """
        wire = self._wire
        try:
            while (line := wire.lines.next_line()) is None:
                wire.lines.feed(await wire.receive(CHUNK))
        except LOST as error:
            raise wire.lost(error) from error
        return line, monotonic_ns(), time_ns()

    async def end_stream(self, unit_id: str) -> None:
        """Stop the stream and release the port. The unit gets its letter back.

        If the line is lost there is nothing to stop, and nothing is raised.
        """
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
            self._outstanding.note_stream_end(ord(unit_id))

    async def change_baudrate(self, baudrate: int) -> None:
        """Close the line and open it at another baud rate.

        As after a loss, everything that was known about its units is dropped.

        Raises:
            AlicatConfigurationError: the client does not know how to open its line.
            AlicatConnectionError: it cannot be opened, or the client is closed.
        """
        async with self._turn(0):
            wire = self._wire
            if wire.closed:
                raise wire.lost(None)
            if self._reopen_at is None:
                raise AlicatConfigurationError(
                    f"the baud rate of {self.label} cannot be changed: open the device by the path "
                    "of its port"
                )
            with self._waiting.scope(shield=True):
                with suppress(*LOST):
                    await wire.transport.aclose()
                try:
                    transport = await self._reopen_at(baudrate)
                except LOST as error:
                    raise wire.lost(error) from error
            self._use(transport)
            self._generation += 1

    async def rename(self, old: str, new: str, *, generation: int | None = None) -> None:
        """Give a unit another letter, and wait until the line is silent.

        Some instruments answer under the new letter and others do not, so that answer is discarded.
        All debts on the bus are settled first.

        Raises:
            AlicatStreamingModeError: the line does not fall silent.
            AlicatConnectionError: the port is lost or closed, or was opened again since.
        """
        async with self._turn(ord(old)):
            self._check_question(generation)
            if self._outstanding.untidy():
                await self._outstanding.settle_everyone(ord(old))
            wire = self._wire
            await wire.put(f"{old}@ {new}\r".encode())
            await self._waiting.sleep(_RENAME_GRACE_S)
            wire.last_byte_at = monotonic()
            await wire.drain()

    async def sleep(self, seconds: float) -> None:
        """Wait without the bus, as the tasks of this client wait."""
        await self._waiting.sleep(seconds)

    def _check_question(self, generation: int | None) -> None:
        if generation is not None and generation != self._generation:
            raise self._opened_again()
        if self._streaming is not None:
            raise AlicatStreamingModeError(
                f"unit {self._streaming} on {self.label} is streaming; leave its stream before "
                "you use this port",
                context=ErrorContext(port=self.label, unit_id=self._streaming),
            )

    def _opened_again(self) -> AlicatConnectionError:
        return AlicatConnectionError(
            f"the connection to {self.label} was lost and reopened; the unit must be identified "
            "before it is used",
            context=ErrorContext(port=self.label),
        )
