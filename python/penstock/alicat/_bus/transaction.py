"""One question and its answer, on a bus that the caller holds meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, monotonic_ns, time_ns
from typing import TypeVar

from penstock.alicat._bus.outstanding import OutstandingReplies, Row, StrayLine
from penstock.alicat._bus.replies import Counts, Exchange
from penstock.alicat._bus.waiting import Waiting
from penstock.alicat._bus.wire import CHUNK, LOST, Wire
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatTimeoutError,
    ErrorContext,
)

T = TypeVar("T")


class Transactions:
    """The transactions of one connection, and the debts of its units.

    Args:
        wire: The connection.
        waiting: The primitives that its coroutines wait with.
        counts: The bus's account.
        default_timeout: Seconds for the answer to a proof.
        late_reply_window: Seconds after which no answer to a question can still arrive.
    """

    def __init__(
        self,
        wire: Wire,
        waiting: Waiting,
        counts: Counts,
        *,
        default_timeout: float,
        late_reply_window: float,
    ) -> None:
        self._wire = wire
        self._waiting = waiting
        self._counts = counts
        self.outstanding = OutstandingReplies(
            wire, counts, self.transact, default_timeout=default_timeout, window=late_reply_window
        )

    async def transact(
        self,
        command: bytes,
        decode: Callable[[bytes], T],
        timeout: float,
        unmistakable: bool,
        *,
        letterless: bool = False,
        gap: float | None = None,
        refuse_strays: bool = False,
    ) -> Exchange[T] | None:
        """Send ``command`` and return what ``decode`` makes of its answer.

        Args:
            command: The whole command; its first byte is the unit id.
            decode: Makes a value of a line, or raises; see :meth:`AlicatProtocolClient.exchange`.
            timeout: Seconds from the end of sending to the end of the line, besides what the bytes
                of both take on the line.
            unmistakable: No answer to another question passes ``decode``.
            letterless: The answer does not begin with the unit's letter.
            gap: Seconds of silence, from the last byte on, that end a table once ``decode`` has
                taken a row (:attr:`Row.ANOTHER`). Default: ``timeout``.
            refuse_strays: Send nothing where bytes wait that nobody asked for. Only on a line that
                has an exchange of its own, for a unit that owes nothing.

        Returns:
            The answer; None where ``refuse_strays`` is set and bytes wait: nothing was sent then.

        Raises:
            AlicatTimeoutError: no answer in time.
            AlicatProtocolError: something else came.
            AlicatConnectionError: the line is lost or closed.
        """
        unit = command[0]
        wire, outstanding = self._wire, self.outstanding
        lines = wire.lines
        unknown: AlicatProtocolError | None = None
        older: AlicatProtocolError | None = None
        if not wire.usable:
            raise wire.lost(None)
        was_in_debt = outstanding.begin(unit, letterless=letterless)
        requested_unix_ns = time_ns()
        requested_ns = monotonic_ns()
        try:
            allowed = timeout + wire.timing.answer(command)
            silence = allowed if gap is None else gap
            if wire.exchange is None:
                data, ends_at = await wire.ask(command, b"\r", allowed)
            else:
                # As ask() does it: each coroutine between the port and its caller adds to a poll.
                ends_at = monotonic() + allowed
                part = await wire.exchange(
                    command,
                    b"\r",
                    timeout=allowed,
                    max_bytes=CHUNK,
                    refuse_strays=refuse_strays,
                )
                if part is None:
                    outstanding.acquit(unit)
                    return None
                data = part.data
                if part.taken < len(command):
                    ends_at = await wire.send_rest(command[part.taken :], allowed)
            line = lines.take(data) if data else None
            table_ends_at: float | None = None
            while True:
                if line is None:
                    line = lines.next_line()
                while line is None:
                    chunk = await wire.receive_within(ends_at - monotonic())
                    if not chunk:
                        break
                    if table_ends_at is not None:
                        # A row may take longer than the silence that ends a table.
                        ends_at = min(monotonic() + silence, table_ends_at)
                    line = lines.take(chunk)
                    # A line that is never silent must not keep this waiting.
                    if line is None and monotonic() >= ends_at:
                        break
                if line is None:
                    break  # too late
                received_ns = monotonic_ns()
                received_unix_ns = time_ns()
                answer, line = line, None
                try:
                    value = decode(answer)
                except AlicatProtocolError as error:
                    kind = outstanding.place(answer, command, error, unmistakable, was_in_debt)
                    if kind is StrayLine.REFUSAL:
                        if outstanding.may_lack_its_first_byte(answer, error):
                            raise self._cut_line(answer, unit) from error
                        raise
                    if kind is StrayLine.UNKNOWN:
                        unknown = error
                    else:
                        older = error
                    self._counts.discarded += 1
                    if monotonic() >= ends_at:
                        break
                    continue
                if value is Row.ANOTHER:
                    if table_ends_at is None:
                        table_ends_at = monotonic() + wire.timing.table
                        ends_at = monotonic() + silence
                    continue
                outstanding.acquit(unit)
                self._counts.exchanges += 1
                # Not Exchange(...): the constructor of a named tuple is a Python function.
                exchange: Exchange[T] = tuple.__new__(
                    Exchange,
                    (value, requested_ns, requested_unix_ns, received_ns, received_unix_ns),
                )
                return exchange
        except AlicatProtocolError as error:
            self._counts.malformed += 1
            wire.last_byte_at = monotonic()
            self._add_context(error, command)
            raise
        except AlicatConnectionError:
            raise
        except LOST as error:
            raise wire.lost(error) from error
        except BaseException:
            wire.last_byte_at = monotonic()  # the answer may be on the line at this moment
            raise
        self._counts.timeouts += 1
        if lines:
            wire.last_byte_at = monotonic()  # it has begun to answer
        if unknown is not None:
            self._add_context(unknown, command)
            raise unknown
        if older is not None:
            self._add_context(older, command)
        raise AlicatTimeoutError(
            f"unit {chr(unit)} on {wire.label} did not answer {command!r} within {timeout:g} s"
            f"{wire.at_baudrate()}: check that it is powered and connected, and that its "
            f"{wire.its_address('unit id')}",
            context=ErrorContext(
                command_bytes=command,
                unit_id=chr(unit),
                port=wire.label,
                baudrate=wire.transport.baudrate,
                elapsed_s=(monotonic_ns() - requested_ns) / 1e9,
            ),
        ) from older

    def _cut_line(self, line: bytes, unit: int) -> AlicatParseError:
        return AlicatParseError(
            f"unit {chr(unit)}: {line!r} does not begin with a letter: a byte was lost on the "
            "line, or an instrument on this port streams; ask again",
            field_name="unit id",
            expected=chr(unit),
            actual=line,
            context=ErrorContext(raw_response=line),
        )

    def _add_context(self, error: AlicatProtocolError, command: bytes) -> None:
        transport = self._wire.transport
        error.context = error.context.merged(
            command_bytes=command,
            port=transport.label,
            baudrate=transport.baudrate,
            unit_id=chr(command[0]),
        )
