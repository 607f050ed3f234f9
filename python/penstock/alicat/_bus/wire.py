"""One connection to a bus: its bytes and lines, and how it was lost."""

from __future__ import annotations

import math
from functools import partial
from time import monotonic

import anyio

from penstock.alicat._bus.exchange import Counts
from penstock.alicat._bus.framing import LineBuffer
from penstock.alicat._bus.line_timing import timing_for
from penstock.alicat._bus.waiting import Waiting
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatParseError,
    AlicatStreamingModeError,
    ErrorContext,
)
from penstock.alicat.transport import Transport, is_raw_tcp, takes_nothing

__all__ = ["CHUNK", "LOST", "Wire"]

#: What a transport raises when its line is gone.
LOST = (OSError, EOFError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
#: Bytes that are asked for at a time.
CHUNK = 4096
_SENDING_S = 1.0


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
        self.lines = LineBuffer()
        self.timing = timing_for(
            transport.baudrate, over_tcp=is_raw_tcp(transport.label), idle=idle_timeout
        )
        self.last_byte_at = -math.inf
        self.failure: str | None = None
        self.closed = False
        self._input_waiting = transport.input_waiting
        self._waiting = waiting
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
            return bool(len(self.lines) or self._input_waiting())
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
                    f"the line {self.label} does not fall silent: an instrument on it is "
                    "streaming, or another program is asking; stop it with stop_stream()",
                    context=ErrorContext(port=self.label, raw_response=chunk),
                )

    async def receive_within(self, seconds: float) -> bytes:
        """What comes first within so many seconds; empty where nothing does."""
        chunk = b""
        with self._waiting.scope(deadline=self._waiting.now() + seconds):
            chunk = await self.receive(CHUNK)
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

    def _stalled(self) -> AlicatConnectionError:
        """Take the line for lost because it takes no bytes; the error that says so."""
        # Part of the command may stand in an instrument's buffer: another would be glued to it.
        self.failure = "it took no bytes"
        return AlicatConnectionError(
            f"the port {self.label} took no bytes: check its flow control settings and the "
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
