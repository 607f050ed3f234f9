"""An open WebSocket connection, of a client or of a server."""

from __future__ import annotations

import asyncio
import codecs
import inspect
import logging
import os
import time
import uuid
import weakref
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from penstock import _core
from penstock.websocket.exceptions import (
    ConcurrencyError,
    ConnectionClosed,
    ConnectionClosedError,
    ConnectionClosedOK,
)
from penstock.websocket.frames import Close, CloseCode, Opcode, control_payload, sendable_close
from penstock.websocket.keepalive import Keepalive
from penstock.websocket.options import (
    ConnectionOptions,
    MaxQueue,
    MaxSize,
    WriteLimit,
    logger_or_own,
)
from penstock.websocket.protocol import Side, State
from penstock.websocket.typing import Data, DataLike, LoggerLike

if TYPE_CHECKING:
    from penstock.websocket.http11 import Request, Response

__all__ = ["Connection"]

_NORMAL_CODES = {1000, 1001, 1005}


class Connection(_core.WebSocketConnection):
    """An open WebSocket connection.

    `send`, `write`, `recv` and `async for message in connection` are native. A connection belongs
    to the event loop on which it was opened and is not thread safe.

    `await connection.send(message, text=None)` sends str as text, bytes-like data as binary, and an
    iterable of either in fragments. `text=True` sends bytes as text; whether they are UTF-8 is not
    checked. `text=False` sends a str as binary. While the transport's buffer is above its limit,
    `send` waits.

    `write(message, text=None)` is `send` for code that cannot wait: the message is sent at once, or
    appended to the transport's buffer, however full that is. It raises ConnectionClosed, and
    ConcurrencyError while another message is being sent in fragments.

    `await connection.recv(decode=None)` returns the next message. `decode=False` returns a text as
    bytes, `decode=True` a binary message as str; if that is not UTF-8, the connection fails with
    1007. Cancelling `recv` loses no message.

    Attributes:
        id: A random UUID, for logs.
        request: The client's handshake request.
        response: The server's handshake response.
        subprotocol: The selected subprotocol, or None.
        latency: Seconds between the last ping that was answered and its pong; 0 before the first.
        close_rcvd: The close frame that was received, or None.
        close_sent: The close frame that was sent, or None.
    """

    side = Side.CLIENT

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        max_size: MaxSize = 1 << 20,
        max_queue: MaxQueue = 16,
        write_limit: WriteLimit = None,
        logger: LoggerLike | None = None,
    ) -> None:
        self._options = ConnectionOptions(
            ping_interval,
            ping_timeout,
            close_timeout,
            max_size,
            max_queue,
            write_limit,
            logger_or_own(logger),
        )
        self.id: uuid.UUID = uuid.uuid4()
        self.request: Request | None = None
        self.response: Response | None = None
        self.subprotocol: str | None = None
        self.latency: float = 0.0
        self.close_rcvd: Close | None = None
        self.close_sent: Close | None = None
        self.transport: asyncio.Transport | None = None
        self.loop = loop
        self.state: State = State.CONNECTING
        self._rcvd_then_sent: bool | None = None
        self._lost: asyncio.Future[None] = loop.create_future()
        self._drain_waiters: set[asyncio.Future[None]] = set()
        self._pings: dict[bytes, tuple[asyncio.Future[float], float]] = {}
        self._keepalive: Keepalive | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._logger: LoggerLike | None = None
        self._streaming = False
        self._fragments: asyncio.Future[None] | None = None
        self._cause: BaseException | None = None
        self._receiver_end: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} {self.remote_address}>"

    # ---- addresses and state

    @property
    def local_address(self) -> Any:
        """The socket's own address: (host, port) for IP."""
        return self.transport.get_extra_info("sockname") if self.transport else None

    @property
    def remote_address(self) -> Any:
        """The peer's address: (host, port) for IP."""
        return self.transport.get_extra_info("peername") if self.transport else None

    @property
    def close_code(self) -> int | None:
        """The code of the peer's close frame, 1006 if there was none, None while open."""
        if self.state is not State.CLOSED:
            return None
        return self.close_rcvd.code if self.close_rcvd is not None else 1006

    @property
    def close_reason(self) -> str | None:
        """The reason in the peer's close frame, None while open."""
        if self.state is not State.CLOSED:
            return None
        return self.close_rcvd.reason if self.close_rcvd is not None else ""

    @property
    def logger(self) -> LoggerLike:
        """The logger; its records have the connection as `websocket`."""
        if self._logger is None:
            extra = {"websocket": weakref.proxy(self)}
            self._logger = logging.LoggerAdapter(self._options.logger, extra)
        return self._logger

    @property
    def protocol(self) -> Connection:
        """This object: for programs that read `connection.protocol.state` of `websockets`."""
        return self

    # ---- receiving otherwise than by the native half

    async def _recv_text(self) -> str:
        # Called by `recv(decode=True)`.
        message = await super().recv()
        return message if isinstance(message, str) else await self._decoded(bytes.decode, message)

    async def _decoded(self, decode: Callable[..., str], *arguments: object) -> str:
        try:
            return decode(*arguments)
        except UnicodeDecodeError as error:
            self._cause = error
            if self.state is State.OPEN:
                self._fail(CloseCode.INVALID_DATA, f"{error.reason} at position {error.start}")
            await self.wait_closed()
            raise self._closed_exception() from error

    @overload
    def recv_streaming(self, decode: Literal[True]) -> AsyncIterator[str]: ...
    @overload
    def recv_streaming(self, decode: Literal[False]) -> AsyncIterator[bytes]: ...
    @overload
    def recv_streaming(self, decode: bool | None = None) -> AsyncIterator[Data]: ...
    async def recv_streaming(self, decode: bool | None = None) -> AsyncIterator[Data]:
        """Iterate over the parts of the next message as they arrive.

        A part is the data of a frame that has arrived so far; it need not be a whole fragment. A
        message that has arrived before the call is one part. The iterator must reach its end;
        otherwise no further message can be received.

        Args:
            decode: As for `recv`.

        Raises:
            ConnectionClosed: If the connection is closed.
            ConcurrencyError: If another call receives, or has left such an iterator unfinished.
        """
        if self._streaming:
            raise ConcurrencyError(
                "recv_streaming() called before another call has reached the end of its message"
            )
        self._receive_parts(True)
        decoder = codecs.getincrementaldecoder("utf-8")()
        last = False
        try:
            while not last:
                received = await self._recv_part()
                if not isinstance(received, tuple):
                    is_text, part, last = isinstance(received, str), received, True
                else:
                    is_text, part, last = received
                    self._streaming = not last
                if isinstance(part, str):
                    part = part.encode()
                if is_text if decode is None else decode:
                    yield await self._decoded(decoder.decode, part, last)
                else:
                    yield part
        finally:
            if not self._streaming:
                self._receive_parts(False)

    # ---- receiving by a function

    async def for_each(self, function: Callable[[Any], object]) -> None:
        """Call a function with each message until the connection is closed.

        This takes less time than `async for`, because no task is resumed: the function is called
        when the message arrives. The function cannot wait; it answers with `write`. It runs in a
        copy of the caller's context, in which `asyncio.current_task()` is None.

        No message is delivered while the transport's buffer is above its limit. Messages are then
        queued as for `recv`, and reading pauses at `max_queue`.

        Cancelling the call ends the delivery when the call returns. `recv` then returns the
        messages that were not delivered.

        Args:
            function: Called with one message, str or bytes. Its result is ignored.

        Raises:
            ConnectionClosedError: If the connection has not ended normally.
            ConcurrencyError: If another call receives.
            TypeError: If `function` cannot be called, or is a coroutine function.
            Exception: The exception of the function, which is not called again.
        """
        given: object = function
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise TypeError(
                f"for_each() calls a function that does not wait, not {function!r}; use `async for`"
            )
        if self._streaming:
            self._refuse_second_receiver("for_each() called before recv_streaming() has ended")
        self._set_receiver(function)
        self._receiver_end = end = self.loop.create_future()
        try:
            self._call_receiver()
            await end
        finally:
            if self._receiver_end is end:
                self._receiver_end = None
                self._set_receiver(None)
        exception = self._end_of_messages(iterating=True)
        if not isinstance(exception, StopAsyncIteration):
            raise exception

    def _on_receiver_end(self, exception: BaseException | None) -> None:
        end, self._receiver_end = self._receiver_end, None
        assert end is not None
        if end.done():  # the call was cancelled
            if exception is not None:
                self.loop.call_exception_handler(
                    {
                        "message": "the function of a cancelled for_each() raised an exception",
                        "exception": exception,
                    }
                )
        elif exception is None:
            end.set_result(None)
        elif isinstance(exception, StopIteration | GeneratorExit):
            # A future refuses StopIteration; a coroutine that raises it gets a RuntimeError too
            # (PEP 479). GeneratorExit, thrown into a task, would end its outermost coroutine.
            cause = RuntimeError(f"the function of for_each() raised {type(exception).__name__}")
            cause.__cause__ = exception
            end.set_exception(cause)
        else:
            end.set_exception(exception)

    # ---- sending

    def _refuse_write(self, message: object) -> NoReturn:
        # Called by `write` where the message is not one buffer, or cannot be sent now.
        if not isinstance(message, str) and not _is_buffer(message):
            raise TypeError(f"a message must be str or bytes-like, not {type(message).__name__}")
        if self.state is not State.OPEN:
            raise self._closed_exception()
        raise ConcurrencyError(
            "another message is being sent in fragments; use send(), which waits"
        )

    async def _send_otherwise(self, message: Any, text: bool | None) -> None:
        # Called by `send` where the message is not one buffer, or cannot be sent now.
        while self._fragments is not None:
            await asyncio.shield(self._fragments)
        await self._check_open()
        if isinstance(message, str) or _is_buffer(message):
            await super().send(message, text=text)
        elif isinstance(message, Mapping):
            raise TypeError("a mapping cannot be sent; encode it, for example with json.dumps()")
        elif isinstance(message, Iterable | AsyncIterable):
            await self._send_fragments(message, text)
        else:
            raise TypeError(
                "a message must be str, bytes-like or an iterable of them, not "
                f"{type(message).__name__}"
            )

    async def _check_open(self) -> None:
        if self.state is State.CLOSING:
            # Only the peer's close frame, if it comes, makes this a normal end.
            await self.wait_closed()
        if self.state is not State.OPEN:
            raise self._closed_exception()

    async def _send_fragments(
        self, parts: Iterable[DataLike] | AsyncIterable[DataLike], text: bool | None
    ) -> None:
        self._fragments = self.loop.create_future()
        self._may_send = False
        kind: type | None = None  # of the parts; None before the first
        try:
            if isinstance(parts, AsyncIterable):
                async for part in parts:
                    kind = await self._send_fragment(part, kind, text)
                    # Outside _send_fragment(): if this is cancelled, `kind` is set already.
                    await self._drain()
            else:
                for part in parts:
                    kind = await self._send_fragment(part, kind, text)
                    await self._drain()
            if kind is not None:
                await self._check_open()
                self._send_frame(Opcode.CONT, b"", True)
        except BaseException:
            # The peer would read the next message as the rest of this one.
            if kind is not None and self.state is State.OPEN:
                self._fail(1011, "error in fragmented message")
            raise
        finally:
            self._fragments.set_result(None)
            self._fragments = None
            self._may_send = self.state is State.OPEN

    async def _send_fragment(self, part: DataLike, before: type | None, text: bool | None) -> type:
        kind = str if isinstance(part, str) else bytes
        if before not in (None, kind):
            raise TypeError("the parts of a message must be all str, or all bytes-like")
        # Exporting it may run code that closes the connection, so it comes before the check.
        held: DataLike = part
        if not isinstance(part, str) and type(part) is not bytes:
            held = memoryview(part)
        await self._check_open()
        if before is not None:
            opcode = Opcode.CONT
        else:
            opcode = Opcode.TEXT if (kind is str if text is None else text) else Opcode.BINARY
        self._send_frame(opcode, held, False)
        return kind

    async def _drain(self) -> None:
        while self._writing_paused and self.state is not State.CLOSED:
            waiter = self.loop.create_future()
            self._drain_waiters.add(waiter)
            try:
                await waiter
            finally:
                self._drain_waiters.discard(waiter)

    async def ping(self, data: DataLike | None = None) -> Awaitable[float]:
        """Send a ping.

        Args:
            data: The payload, at most 125 bytes; 4 random bytes if None.

        Returns:
            A future whose result is the number of seconds until the pong.
            `await (await connection.ping())` waits for the pong.

        Raises:
            ConnectionClosed: If the connection is closed; the future raises it too.
            ConcurrencyError: If a ping with that payload is unanswered.
            ProtocolError: If the payload is too long.
        """
        given = None if data is None else control_payload(data)
        await self._check_open()
        return self._new_ping(given)[1]

    def _new_ping(self, data: bytes | None) -> tuple[bytes, asyncio.Future[float]]:
        payload = os.urandom(4) if data is None else data
        if payload in self._pings:
            raise ConcurrencyError("already waiting for a pong with the same data")
        waiter: asyncio.Future[float] = self.loop.create_future()
        # uvloop's time has a resolution of a millisecond.
        self._pings[payload] = (waiter, time.monotonic())
        self._repeat_ping(payload)
        return payload, waiter

    def _repeat_ping(self, payload: bytes) -> None:
        self._send_frame(Opcode.PING, payload, True)

    async def pong(self, data: DataLike = b"") -> None:
        """Send an unsolicited pong (RFC 6455, 5.5.3).

        Args:
            data: The payload, at most 125 bytes.

        Raises:
            ConnectionClosed: If the connection is closed.
            ProtocolError: If the payload is too long.
        """
        payload = control_payload(data)
        await self._check_open()
        self._send_frame(Opcode.PONG, payload, True)

    # ---- closing

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection: send a close frame, wait for the peer's and for the end of TCP.

        If that takes longer than `close_timeout`, the connection is aborted; the cause of
        ConnectionClosed is then a TimeoutError. A call on a closed connection returns at once.
        `recv` still returns the messages that arrived before, and at most `max_queue` of those that
        arrive during the closing. Cancelling the call ends the wait only: the closing goes on, and
        `close_timeout` still applies. If a message is being sent in fragments, the connection fails
        with 1011.

        Args:
            code: 1000 to 1003, 1007 to 1014 or 3000 to 4999.
            reason: At most 123 bytes in UTF-8.

        Raises:
            ProtocolError: If the code or the reason cannot be sent. It is a ValueError too.
        """
        if self.state is State.OPEN:
            close = sendable_close(code, reason)
            if self._fragments is None:
                self._send_close(close)
                self._limit_closing()
            else:
                # After a normal close, neither end would notice that half a message is lost.
                self._fail(1011, "close during fragmented message")
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed. Cancelling it does not close the connection."""
        await asyncio.shield(self._lost)

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        await self.close(1000 if exc_type is None else 1011)

    def _send_close(self, close: Close) -> None:
        payload = close.serialize()
        self.close_sent = close
        if self.close_rcvd is not None:
            self._rcvd_then_sent = True
        self.state = State.CLOSING
        self._may_send = False
        self._send_frame(Opcode.CLOSE, payload, True)
        self._closing = True
        if self._reading_paused and self.transport is not None:
            self._reading_paused = False
            self.transport.resume_reading()

    def _stop_timers(self) -> None:
        if self._keepalive is not None:
            self._keepalive.stop()
            self._keepalive = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit_closing(self) -> None:
        self._stop_timers()
        timeout = self._options.close_timeout
        if timeout is not None and self.transport is not None:
            self._timer = self.loop.call_later(timeout, self._give_up_closing)

    def _give_up_closing(self) -> None:
        self._timer = None
        self._cause = TimeoutError(
            f"the peer has not closed within {self._options.close_timeout} s"
        )
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, code: int, reason: str) -> None:
        if self.close_sent is None:
            self._send_close(Close(code, reason))
        self._end()
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        # Closing a socket with unread data resets the connection, and the peer might not get the
        # close frame. So this end reads and drops the rest of the peer's data.
        self._limit_closing()
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()

    def _closed_exception(self) -> ConnectionClosed:
        rcvd, sent = self.close_rcvd, self.close_sent
        normal = (
            rcvd is not None
            and sent is not None
            and rcvd.code in _NORMAL_CODES
            and sent.code in _NORMAL_CODES
        )
        kind = ConnectionClosedOK if normal else ConnectionClosedError
        exception = kind(rcvd, sent, self._rcvd_then_sent)
        exception.__cause__ = self._cause
        return exception

    # ---- calls of the native half

    def _refuse_second_receiver(self, reason: str) -> NoReturn:
        raise ConcurrencyError(reason)

    def _end_of_messages(self, iterating: bool) -> BaseException:
        exception = self._closed_exception()
        if iterating and isinstance(exception, ConnectionClosedOK):
            return StopAsyncIteration()
        return exception

    def _on_pong(self, _: int, data: bytes) -> None:
        if data not in self._pings:
            return
        now = time.monotonic()
        # A pong also answers the pings before (RFC 6455, 5.5.3).
        for payload in list(self._pings):
            waiter, sent = self._pings.pop(payload)
            self.latency = now - sent
            if not waiter.done():
                waiter.set_result(self.latency)
            if payload == data:
                break

    def _on_close(self, code: int, reason: bytes) -> None:
        self.close_rcvd = Close(code, reason.decode())
        if self.close_sent is None:
            self._send_close(self.close_rcvd)
            # The peer may never close TCP, or never read the rest of the transport's buffer.
            self._limit_closing()
        else:
            self._rcvd_then_sent = False
        self._end()
        # The server closes TCP first (RFC 6455, 7.1.1).
        if self.transport is not None and self.side is Side.SERVER:
            self.transport.close()

    def _on_failure(self, code: int, reason: bytes) -> None:
        self._fail(code, reason.decode())

    # ---- the protocol

    def _open(
        self, transport: asyncio.Transport, deflate: tuple[int, bool, int, bool] | None
    ) -> None:
        options = self._options
        self.transport = transport
        self.state = State.OPEN
        client = self.side is Side.CLIENT
        self._start(self.loop, transport, client, options.largest_message, *options.queue, deflate)
        if options.write_buffer is not None:
            transport.set_write_buffer_limits(*options.write_buffer)
        transport.set_protocol(self)  # type: ignore[arg-type] # a protocol by its methods
        if options.ping_interval is not None:
            self._keepalive = Keepalive(self, options.ping_interval, options.ping_timeout)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Do nothing: the connection begins after its handshake."""

    def eof_received(self) -> None:
        """Let the transport close itself."""

    def pause_writing(self) -> None:
        """Make sends wait."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Let sends continue."""
        self._writing_paused = False
        self._answer_ping()
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._call_receiver()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all that waits for the peer."""
        self.state = State.CLOSED
        self._cause = exc or self._cause
        self._may_send = False
        self._closing = True
        self._stop_timers()
        self._end()
        if self._writing_paused:
            # The data of these sends is still in the buffer, and is lost.
            for drain in self._drain_waiters:
                if not drain.done():
                    drain.set_exception(self._closed_exception())
        self.resume_writing()
        for waiter, _ in self._pings.values():
            if not waiter.done():
                waiter.set_exception(self._closed_exception())
                waiter.exception()  # a ping that nobody waits for is not an error
        self._pings.clear()
        if not self._lost.done():
            self._lost.set_result(None)


def _is_buffer(message: Any) -> bool:
    try:
        memoryview(message)
    except TypeError:
        return False
    return True
