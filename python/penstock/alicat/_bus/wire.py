"""One connection to a bus: its bytes, lines and times, how it is lost, and opened again.

**Times.** A byte takes ten bits of the line. At 2400 baud a row of 70 characters takes 0.3 s and
the table of a data frame 5 s. So no time that is meant for the instrument may contain them: what
the bytes take is added to it.

**Lines.** Every reply line ends in a carriage return. Adapters and old firmware add line feeds,
NULs and spaces, which have no meaning and are dropped here, so that parsers see clean lines.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final

import anyio

from penstock.alicat._bus.replies import Counts
from penstock.alicat._bus.waiting import Waiting
from penstock.alicat.errors import (
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    AlicatStreamingModeError,
    ErrorContext,
)
from penstock.alicat.transport import ExchangeCall, Transport, is_raw_tcp, takes_nothing

#: Characters of a long answer line, and rows of a long table (a gas list has about 150).
_LINE = 80
_ROWS = 256
#: Characters of a whole long table, on average of its rows.
_TABLE = 2200
_RESTLESS_S = 1.0
_BITS_A_BYTE = 10
#: Slowest rate of an instrument, and a usual slow one: for lines whose rate is not known here.
_SLOWEST_BAUD = 2400
_SLOW_BAUD = 9600
#: Serial servers collect bytes for up to 50 ms, and a network delays them differently.
_TCP_GAP_S = 0.1


@dataclass(frozen=True, slots=True)
class LineTiming:
    """The times of one connection, in seconds."""

    idle: float
    """Silence, counted from the last byte, after which an answer in progress counts as ended."""
    byte: float
    """One byte on the line; 0 where the rate is unknown."""
    table: float
    """The longest table. Rows that still come after it belong to no table."""
    restless: float
    """A line that is not silent for so long is not just sending the rest of a table."""

    def answer(self, command: bytes) -> float:
        """What the bytes of a command and of an answer line take, besides the instrument's time."""
        return (len(command) + _LINE) * self.byte


def timing_for(
    baudrate: int | None, *, over_tcp: bool = False, idle: float | None = None
) -> LineTiming:
    """The times of a line.

    Args:
        baudrate: Bits a second; ``None`` if unknown.
        over_tcp: It is a raw TCP connection to a serial server, whose rate is not known here.
        idle: The silence, if it is stated.
    """
    if over_tcp:
        baudrate = None
    byte = _BITS_A_BYTE / baudrate if baudrate else 0.0
    slow = byte or (_BITS_A_BYTE / _SLOW_BAUD if over_tcp else 0.0)
    return LineTiming(
        idle=idle or (_TCP_GAP_S if over_tcp else idle_gap_for(baudrate)),
        byte=byte,
        table=_ROWS * _LINE * (byte or _BITS_A_BYTE / _SLOWEST_BAUD),
        restless=_RESTLESS_S + _TABLE * slow,
    )


def idle_gap_for(baudrate: int | None) -> float:
    """Seconds of silence after the last byte, after which a reply in progress counts as ended.

    Twenty character times, because bytes of one reply follow each other without a pause, and
    25 ms, because USB adapters hand bytes over in bursts up to 16 ms apart (the FTDI latency
    timer's default) and a loaded machine adds a few more.
    """
    return 0.025 + (200.0 / baudrate if baudrate else 0.0)


def check_seconds(value: object, name: str = "timeout") -> None:
    """Refuse a time that no wait can have.

    Raises:
        AlicatConfigurationError: it is not a finite number above 0.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator]
        raise AlicatConfigurationError(f"{name} must be a number of seconds above 0, not {value!r}")


MAX_LINE = 8192
"""Longest line in bytes. The longest known reply, a GP instrument's whole gas list on one line,
is below 3 KiB; more than this is noise, or a port that is not an instrument."""

_AROUND = b" \t\r\n\0"
# As numbers: to look for bytes in bytes takes ten times as long, because an error is raised and
# cleared each time.
_NUL, _LINE_FEED = b"\0\n"


class LineBuffer:
    """Splits a byte stream at carriage returns. No I/O; not thread-safe.

    All lines of a chunk are cut at once: a table of thirty rows arrives in one or two chunks.
    """

    __slots__ = ("_complete", "_rest")

    def __init__(self) -> None:
        self._complete: deque[bytes] = deque()
        self._rest = bytearray()

    def __len__(self) -> int:
        """The number of buffered bytes: complete lines, and the beginning of an unfinished one."""
        return len(self._rest) + sum(len(line) + 1 for line in self._complete)

    def __bool__(self) -> bool:
        """Whether any byte is buffered."""
        return bool(self._rest or self._complete)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        pieces = data.split(b"\r")
        if len(pieces) > 1:
            pieces[0] = bytes(self._rest) + pieces[0]
            self._rest.clear()
        self._rest += pieces.pop()
        self._complete.extend(pieces)

    def next_line(self) -> bytes | None:
        """Take the next complete line that is not empty; ``None`` if there is none yet.

        Raises:
            AlicatParseError: the line is longer than :data:`MAX_LINE`; it is dropped.
        """
        complete = self._complete
        while complete:
            whole = complete.popleft()
            if len(whole) > MAX_LINE:
                raise _too_long(whole)
            line = whole.strip(_AROUND)
            if _NUL in line or _LINE_FEED in line:
                line = line.translate(None, b"\0\n").strip(_AROUND)
            if line:
                return line
        if len(self._rest) > MAX_LINE:
            start = bytes(self._rest)
            self._rest.clear()
            raise _too_long(start)
        return None

    def take(self, data: bytes) -> bytes | None:
        """Add received bytes and take the next line, as :meth:`next_line` does."""
        # Nearly always a whole answer, which then needs no buffer.
        none_waits = not (self._rest or self._complete)
        if none_waits and data.find(b"\r") == len(data) - 1 <= MAX_LINE:
            line = data.strip(_AROUND)
            if line and _NUL not in line and _LINE_FEED not in line:
                return line
        self.feed(data)
        return self.next_line()

    def clear(self) -> int:
        """Drop all buffered bytes, and return their number."""
        dropped = len(self)
        self._complete.clear()
        self._rest.clear()
        return dropped


def _too_long(line: bytes) -> AlicatParseError:
    return AlicatParseError(
        f"a line of more than {MAX_LINE} bytes without a carriage return, beginning "
        f"{line[:60]!r}: check the baud rate and that the port leads to an instrument",
        field_name="line",
        expected=f"a carriage return within {MAX_LINE} bytes",
    )


#: What a transport raises when its line is gone.
LOST = (OSError, EOFError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
#: Bytes that are asked for at a time.
CHUNK = 4096
_SENDING_S = 1.0


_ReceiveBy = Callable[[float, int], Awaitable[bytes]]


class Wire:
    """A transport with its line buffer, for one connection.

    ``reopens`` tells whether a lost line is opened again, for the sentences of errors.
    """

    def __init__(
        self,
        transport: Transport,
        waiting: Waiting,
        counts: Counts,
        *,
        idle_timeout: float | None,
        reopens: bool,
    ) -> None:
        self.transport = transport
        self.send = transport.send
        self.send_nowait = getattr(transport, "send_nowait", takes_nothing)
        self.receive = transport.receive
        receive_by = getattr(transport, "receive_by", None)
        self.receive_by: _ReceiveBy = receive_by or self._receive_in_scope
        self.exchange: ExchangeCall | None = getattr(transport, "exchange_part", None)
        self.lines = LineBuffer()
        self.timing = timing_for(
            transport.baudrate, over_tcp=is_raw_tcp(transport.label), idle=idle_timeout
        )
        self.last_byte_at = -math.inf
        self.failure: str | None = None
        self.closed = False
        self._input_waiting = transport.input_waiting
        self._waiting = waiting
        self._alarm = waiting.alarm()
        self._counts = counts
        self._reopens = reopens

    @property
    def label(self) -> str:
        """The port's name."""
        return self.transport.label

    @property
    def usable(self) -> bool:
        """Whether it is neither closed nor lost."""
        return not self.closed and self.failure is None

    def has_strays(self) -> bool:
        """Whether bytes are there that nobody asked for."""
        try:
            return bool(self.lines or self._input_waiting())
        except LOST as error:
            raise self.lost(error) from error

    async def put(self, data: bytes, seconds: float = _SENDING_S) -> None:
        """Send bytes, all of them also when the task is cancelled meanwhile.

        Half a command in an instrument's buffer would join the next one ("ALS 1" + "A"), and what
        that does nobody knows.

        Raises:
            AlicatConnectionError: the line is lost, or did not take them within ``seconds``. It is
                taken for lost then.
        """
        await self._waiting.finish(partial(self._put, data, seconds))

    async def _put(self, data: bytes, seconds: float) -> None:
        if not self.usable:
            raise self.lost(None)
        taken = False
        try:
            with self._waiting.scope(deadline=self._waiting.now() + seconds):
                await self.send(data)
                taken = True
        except LOST as error:
            raise self.lost(error) from error
        if not taken:
            raise self._stalled()

    async def ask(self, command: bytes, delimiter: bytes, seconds: float) -> tuple[bytes, float]:
        """Send a command; its answer may take ``seconds`` from then on.

        Returns:
            What has come of the answer, up to the delimiter or the deadline; and the deadline, on
            the clock of ``time.monotonic()``. A transport that has no exchange of its own returns
            before anything has come, so that the caller works while the instrument answers.

        Raises:
            AlicatConnectionError: the line takes no bytes.
            OSError: the line is lost; or another one of :data:`LOST`.
        """
        data = b""
        ends_at = monotonic() + seconds
        if self.exchange is None:
            taken = self.send_nowait(command)
        else:
            part = await self.exchange(command, delimiter, timeout=seconds, max_bytes=CHUNK)
            assert part is not None  # it was not told to look for strays
            taken, data = part.taken, part.data
        if taken < len(command):
            ends_at = await self.send_rest(command[taken:], seconds)
        return data, ends_at

    async def send_rest(self, rest: bytes, seconds: float) -> float:
        """Send what the line did not take of a command at once; return the answer's deadline.

        Raises:
            AlicatConnectionError: the line takes no bytes.
        """
        # The port gets more time than the instrument: a timeout here counts as a lost connection,
        # and a busy machine may be late for a moment.
        await self.put(rest, seconds + _SENDING_S)
        return monotonic() + seconds

    async def drain(self) -> None:
        """Throw away what comes until the line has been silent for the idle time.

        Raises:
            AlicatStreamingModeError: it does not fall silent.
        """
        restless_at = monotonic() + self.timing.restless
        self.discard()
        while True:
            there = self._input_waiting()
            wait = self.timing.idle
            if there is not None:
                # The silence before this call counts too, since bytes in it would be seen.
                wait -= monotonic() - self.last_byte_at
            chunk = b""
            if there:
                chunk = await self.receive(CHUNK)
            elif wait > 0:
                chunk = await self.receive_within(wait)
            if not chunk:
                if self.lines.clear():
                    self._counts.discarded += 1
                return
            self.lines.feed(chunk)
            self.last_byte_at = monotonic()
            self.discard()
            if monotonic() > restless_at:
                self.lines.clear()
                raise AlicatStreamingModeError(
                    f"the line {self.label} is never silent: an instrument on it is streaming, or "
                    "another program uses it; stop the stream with stop_stream()",
                    context=ErrorContext(port=self.label, raw_response=chunk),
                )

    async def receive_within(self, seconds: float) -> bytes:
        """What comes first within so many seconds; empty where nothing does."""
        return await self.receive_by(self._waiting.now() + seconds, CHUNK)

    async def _receive_in_scope(self, deadline: float, max_bytes: int) -> bytes:
        """The ``receive_by`` of a transport that has none."""
        chunk = b""
        scope, alarm = self._waiting.scope(), self._alarm
        try:
            with scope:
                alarm.set(scope, deadline - self._waiting.now())
                chunk = await self.receive(max_bytes)
        finally:
            alarm.off()
        return chunk

    def discard(self) -> None:
        """Throw away and count the lines that were received and not taken.

        The beginning of another one stays: the rest of the same line comes after it.
        """
        try:
            while self.lines.next_line() is not None:
                self._counts.discarded += 1
        except AlicatParseError:
            self._counts.discarded += 1

    def at_baudrate(self) -> str:
        """Words for an error."""
        return f" at {self.transport.baudrate} baud" if self.transport.baudrate else ""

    def its_address(self, name: str) -> str:
        """Words for an error: what has to be the same at both ends.

        A network port has no baud rate of ours.
        """
        return f"{name} and baud rate are these" if self.transport.baudrate else f"{name} is this"

    def _stalled(self) -> AlicatConnectionError:
        """Take the line for lost because it takes no bytes; the error that says so."""
        # Part of the command may stand in an instrument's buffer: another would be glued to it.
        self.failure = "writing timed out"
        return AlicatConnectionError(
            f"writing to the port {self.label} timed out: check its flow control settings and the "
            f"adapter{self._then()}",
            context=ErrorContext(port=self.label),
        )

    def lost(self, error: BaseException | None) -> AlicatConnectionError:
        """Take the line for lost; the error that says so."""
        if self.closed:
            message = f"the port {self.label} is closed; open the device again"
        elif error is not None and not self._counts.exchanges and is_raw_tcp(self.label):
            self.failure = "the server closed the connection"
            message = (
                f"the server at {self.label} closed the connection before anything was answered: "
                "it probably serves another client, and most serve one at a time; disconnect that "
                f"one, or share one AlicatManager with it{self._then()}"
            )
        else:
            if error is not None:
                self.failure = str(error) or type(error).__name__
            message = (
                f"the connection to {self.label} is lost ({self.failure}): check the cable and "
                f"the adapter{self._then()}"
            )
        return AlicatConnectionError(message, context=ErrorContext(port=self.label))

    def _then(self) -> str:
        return "; it is opened again" if self._reopens else ", then open the device again"


class RetryDelay:
    """The pause before the next try.

    ``first`` seconds after a failure, doubled after each further one up to ``last``, and none once
    something has succeeded.
    """

    __slots__ = ("_first", "_last", "_next", "_until")

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self._next = first
        self._until = -math.inf

    def remaining(self) -> float:
        """Seconds until the next try; zero or less where it may be made."""
        return self._until - monotonic()

    def failed(self) -> None:
        """A try has failed."""
        self._until = monotonic() + self._next
        self._next = min(2 * self._next, self._last)

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self._until = -math.inf
        self._next = self._first


_FIRST_RETRY_S: Final = 0.25
_LAST_RETRY_S: Final = 10.0
_TIMEOUT_S: Final = 5.0


def retry_delay() -> RetryDelay:
    """The pauses between the tries to open one line."""
    return RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)


async def reopened_line(
    wire: Wire,
    waiting: Waiting,
    retry: RetryDelay,
    reconnect: Callable[[], Awaitable[Transport]] | None,
) -> Transport:
    """A new transport instead of a lost one, which is closed.

    Raises:
        AlicatConnectionError: it cannot be opened, it is too early to try again, or ``wire`` was
            closed by its owner, before this call or during it.
    """
    if wire.closed or reconnect is None:
        raise wire.lost(None)
    if (wait := retry.remaining()) > 0:
        raise AlicatConnectionError(
            f"the connection to {wire.label} is lost ({wire.failure}); it is tried again "
            f"in {wait:.1f} s",
            context=ErrorContext(port=wire.label),
        )
    transport: Transport | None = None
    try:
        with waiting.scope(shield=True), suppress(*LOST):
            await wire.transport.aclose()
        with waiting.scope(deadline=waiting.now() + _TIMEOUT_S):
            transport = await reconnect()
        if transport is None:
            raise TimeoutError(f"it was not open within {_TIMEOUT_S:g} s")
    except (AlicatError, *LOST) as error:
        retry.failed()
        if isinstance(error, AlicatError):
            raise
        raise wire.lost(error) from error
    if _was_closed(wire):
        with waiting.scope(shield=True):
            await transport.aclose()
        raise wire.lost(None)
    return transport


def _was_closed(wire: Wire) -> bool:
    # In a function, as the type checker holds that no await can change what it has seen.
    return wire.closed
