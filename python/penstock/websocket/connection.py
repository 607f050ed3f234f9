"""An open WebSocket connection, of a client or of a server."""

from __future__ import annotations

import asyncio
import enum
import inspect
import os
import struct
import time
import uuid
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from penstock import _core
from penstock.websocket.exceptions import (
    Close,
    ConcurrencyError,
    ConnectionClosed,
    ConnectionClosedError,
    ConnectionClosedOK,
)

if TYPE_CHECKING:
    from penstock.websocket.http import Request, Response

__all__ = ["Connection", "Data", "State"]

Data = str | bytes | bytearray | memoryview

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_NORMAL_CODES = {1000, 1001, 1005}
_NO_CODE = 1005


class State(enum.IntEnum):
    """The state of a connection (RFC 6455, 4.1 and 7.1)."""

    CONNECTING, OPEN, CLOSING, CLOSED = range(4)


def check_limits(max_size: object, max_queue: object) -> None:
    """Raise ValueError for a limit that a connection would not accept when it opens."""
    for name, value in (("max_size", max_size), ("max_queue", max_queue)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} is a number of at least 1, or None, not {value!r}")


def checked_subprotocols(names: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"subprotocols is a list of names, not {names!r}; use [{names!r}]")
    return tuple(names or ())


def _close_payload(close: Close) -> bytes:
    if close.code == _NO_CODE:
        return b""
    code = close.code
    if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code < 5000):
        raise ValueError(f"close code {code} may not be sent; use 1000, or 3000 to 4999")
    reason = close.reason.encode()
    if len(reason) > 123:
        raise ValueError(f"the reason has {len(reason)} bytes in UTF-8; at most 123 fit")
    return struct.pack("!H", code) + reason


class Connection(_core.WebSocketConnection):
    """An open WebSocket connection.

    `send`, `write`, `recv` and `async for message in connection` are native. A connection belongs
    to the event loop on which it was opened and is not thread safe.

    `write(message)` is `send` for code that cannot wait: the message is sent at once, or put into
    the transport's buffer, however full that is. It raises ConnectionClosed, and ConcurrencyError
    while another message is sent in fragments.

    Attributes:
        id: A random UUID, for logs.
        request: The client's handshake request.
        response: The server's handshake response.
        subprotocol: The selected subprotocol, or None.
        latency: Seconds of the last answered keepalive ping; 0 before the first.
        close_rcvd: The close frame that was received, or None.
        close_sent: The close frame that was sent, or None.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        client: bool,
        ping_interval: float | None,
        ping_timeout: float | None,
        close_timeout: float | None,
    ) -> None:
        self.id = uuid.uuid4()
        self.request: Request | None = None
        self.response: Response | None = None
        self.subprotocol: str | None = None
        self.latency = 0.0
        self.close_rcvd: Close | None = None
        self.close_sent: Close | None = None
        self.transport: asyncio.Transport | None = None
        self.loop = loop
        self.state = State.CONNECTING
        self._client = client
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._close_timeout = close_timeout
        self._rcvd_then_sent: bool | None = None
        self._lost: asyncio.Future[None] = loop.create_future()
        self._drain_waiters: set[asyncio.Future[None]] = set()
        self._pings: dict[bytes, tuple[asyncio.Future[float], float]] = {}
        self._timer: asyncio.TimerHandle | None = None
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

    # ---- receiving by a function

    async def for_each(self, function: Callable[[Any], object]) -> None:
        """Call a function with each message until the connection is closed.

        This takes less time than `async for`, because no task is resumed: the function is called
        when the message arrives. It cannot wait; it answers with `write`. It runs in a copy of the
        caller's context, and `asyncio.current_task()` is None in it.

        No message is delivered while the transport's buffer is beyond its limit. Messages then wait
        as for `recv`, and reading pauses at `max_queue`.

        Cancelling the call ends the delivery when it returns. The messages that were not delivered
        can be received.

        Args:
            function: Called with one message, str or bytes. What it returns is ignored.

        Raises:
            ConnectionClosedError: If the connection has not ended normally.
            ConcurrencyError: If another call receives.
            TypeError: If the function is none, or one that waits.
            Exception: What the function raises. It is not called again.
        """
        given: object = function
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise TypeError(
                f"for_each() calls a function that does not wait, not {function!r}; use `async for`"
            )
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
            # A future refuses the one. A coroutine that raises it gets a RuntimeError (PEP 479).
            # The other, thrown into a task, ends its outermost coroutine.
            cause = RuntimeError(f"the function of for_each() raised {type(exception).__name__}")
            cause.__cause__ = exception
            end.set_exception(cause)
        else:
            end.set_exception(exception)

    # ---- sending

    def _refuse_write(self, message: object) -> NoReturn:
        # Called by `write` where the message is not one buffer, or cannot be sent now.
        if not isinstance(message, str) and not _is_buffer(message):
            raise TypeError(f"a message is str or bytes-like, not {type(message).__name__}")
        if self.state is not State.OPEN:
            raise self._closed_exception()
        raise ConcurrencyError(
            "another message is being sent in fragments; use send(), which waits"
        )

    async def _send_otherwise(self, message: object) -> None:
        # Called by `send` where the message is not one buffer, or cannot be sent now.
        while self._fragments is not None:
            await asyncio.shield(self._fragments)
        await self._check_open()
        if isinstance(message, str) or _is_buffer(message):
            await super().send(message)
        elif isinstance(message, Mapping):
            raise TypeError("a mapping cannot be sent; encode it, for example with json.dumps()")
        elif isinstance(message, Iterable | AsyncIterable):
            await self._send_fragments(message)
        else:
            raise TypeError(
                f"a message is str, bytes-like or an iterable of them, not {type(message).__name__}"
            )

    async def _check_open(self) -> None:
        if self.state is State.CLOSING:
            # Only the peer's close frame, if it comes, makes this a normal end.
            await self.wait_closed()
        if self.state is not State.OPEN:
            raise self._closed_exception()

    async def _send_fragments(self, parts: Iterable[Data] | AsyncIterable[Data]) -> None:
        self._fragments = self.loop.create_future()
        self._may_send = False
        opcode = _CONTINUATION
        try:
            if isinstance(parts, AsyncIterable):
                async for part in parts:
                    opcode = await self._send_fragment(part, opcode)
            else:
                for part in parts:
                    opcode = await self._send_fragment(part, opcode)
            if opcode != _CONTINUATION:
                await self._check_open()
                self._send_frame(_CONTINUATION, b"", True)
        except BaseException:
            # The peer would take what is sent next for the rest of this message.
            if opcode != _CONTINUATION and self.state is State.OPEN:
                self._fail(1011, "error in fragmented message")
            raise
        finally:
            self._fragments.set_result(None)
            self._fragments = None
            self._may_send = self.state is State.OPEN

    async def _send_fragment(self, part: Data, opcode: int) -> int:
        kind = _TEXT if isinstance(part, str) else _BINARY
        if opcode not in (_CONTINUATION, kind):
            raise TypeError("the parts of a message are all str, or all bytes-like")
        await self._check_open()
        self._send_frame(kind if opcode == _CONTINUATION else _CONTINUATION, part, False)
        if self._writing_paused:
            await self._drain()
        return kind

    async def _drain(self) -> None:
        while self._writing_paused and self.state is not State.CLOSED:
            waiter = self.loop.create_future()
            self._drain_waiters.add(waiter)
            try:
                await waiter
            finally:
                self._drain_waiters.discard(waiter)

    async def ping(self, data: Data | None = None) -> Awaitable[float]:
        """Send a ping.

        Args:
            data: Its payload, at most 125 bytes; 4 random bytes if None.

        Returns:
            A future with the seconds until the pong. `await (await connection.ping())` waits for
            it.

        Raises:
            ConnectionClosed: If the connection is closed; the future raises it too.
            ConcurrencyError: If a ping with that payload is unanswered.
        """
        await self._check_open()
        return self._ping(data)

    def _ping(self, data: Data | None) -> asyncio.Future[float]:
        payload = os.urandom(4) if data is None else _control_payload(data)
        if payload in self._pings:
            raise ConcurrencyError("already waiting for a pong with the same data")
        waiter: asyncio.Future[float] = self.loop.create_future()
        # uvloop's time has a resolution of a millisecond.
        self._pings[payload] = (waiter, time.monotonic())
        self._send_frame(_PING, payload, True)
        return waiter

    async def pong(self, data: Data = b"") -> None:
        """Send a pong that no ping has asked for.

        Args:
            data: Its payload, at most 125 bytes.

        Raises:
            ConnectionClosed: If the connection is closed.
        """
        await self._check_open()
        self._send_frame(_PONG, _control_payload(data), True)

    # ---- closing

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection: send a close frame, wait for the peer's and for the end of TCP.

        After `close_timeout` the connection is aborted; the cause of ConnectionClosed is then a
        TimeoutError. Does nothing more if it is closed. Messages
        that were received before can still be received; of those that arrive during the closing,
        `max_queue`. Cancelling the call aborts nothing: the timeout still applies. While a message
        is sent in fragments, the connection fails with 1011.

        Args:
            code: 1000 to 1003, 1007 to 1014 or 3000 to 4999.
            reason: At most 123 bytes in UTF-8.

        Raises:
            ValueError: If the code or the reason cannot be sent.
        """
        if self.state is State.OPEN:
            if code == _NO_CODE:
                raise ValueError("close code 1005 may not be sent; use 1000")
            if self._fragments is None:
                self._send_close(Close(code, reason))
                self._limit_closing()
            else:
                _close_payload(Close(code, reason))
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
        payload = _close_payload(close)
        self.close_sent = close
        if self.close_rcvd is not None:
            self._rcvd_then_sent = True
        self.state = State.CLOSING
        self._may_send = False
        self._send_frame(_CLOSE, payload, True)
        self._closing = True
        if self._reading_paused and self.transport is not None:
            self._reading_paused = False
            self.transport.resume_reading()

    def _limit_closing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._close_timeout is not None and self.transport is not None:
            self._timer = self.loop.call_later(self._close_timeout, self._give_up_closing)

    def _give_up_closing(self) -> None:
        self._timer = None
        self._cause = TimeoutError(f"the peer has not closed within {self._close_timeout} s")
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, code: int, reason: str) -> None:
        if self.close_sent is None:
            self._send_close(Close(code, reason))
        self._end()
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        # A close with unread data would reset the connection, and the peer might not get the close
        # frame. So the rest of what the peer sends is read and dropped.
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
            # The peer may not end TCP, or not read what the transport still has to write.
            self._limit_closing()
        else:
            self._rcvd_then_sent = False
        self._end()
        # The server closes TCP first (RFC 6455, 7.1.1).
        if self.transport is not None and not self._client:
            self.transport.close()

    def _on_failure(self, code: int, reason: bytes) -> None:
        self._fail(code, reason.decode())

    # ---- the protocol

    def _open(
        self,
        transport: asyncio.Transport,
        max_size: int | None,
        max_queue: int | None,
        deflate: tuple[int, bool, int, bool] | None,
    ) -> None:
        self.transport = transport
        self.state = State.OPEN
        self._start(self.loop, transport, self._client, max_size or 0, max_queue or 0, deflate)
        transport.set_protocol(self)  # type: ignore[arg-type] # a protocol by its methods
        if self._ping_interval is not None:
            self._timer = self.loop.call_later(self._ping_interval, self._keep_alive)

    def _keep_alive(self) -> None:
        self._timer = None
        if self.state is not State.OPEN or self._ping_interval is None:
            return
        waiter = self._ping(None)
        if self._ping_timeout is None:
            self._timer = self.loop.call_later(self._ping_interval, self._keep_alive)
        else:
            self._timer = self.loop.call_later(self._ping_timeout, self._check_pong, waiter)

    def _check_pong(self, waiter: asyncio.Future[float]) -> None:
        self._timer = None
        if self.state is not State.OPEN or self._ping_interval is None:
            return
        if not waiter.done():
            self._fail(1011, "keepalive ping timeout")
            return
        rest = max(0.0, self._ping_interval - (self._ping_timeout or 0.0))
        self._timer = self.loop.call_later(rest, self._keep_alive)

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end()
        if self._writing_paused:
            # What they have sent is still in the buffer, and is lost.
            for drain in self._drain_waiters:
                if not drain.done():
                    drain.set_exception(self._closed_exception())
        self.resume_writing()
        for waiter, _ in self._pings.values():
            if not waiter.done():
                waiter.set_exception(self._closed_exception())
                waiter.exception()  # a ping that nobody waits for is no error
        self._pings.clear()
        if not self._lost.done():
            self._lost.set_result(None)


def _is_buffer(message: Any) -> bool:
    try:
        memoryview(message)
    except TypeError:
        return False
    return True


def _control_payload(data: Data) -> bytes:
    if not isinstance(data, Data):
        raise TypeError(f"a payload is str or bytes-like, not {type(data).__name__}")
    payload = data.encode() if isinstance(data, str) else bytes(data)
    if len(payload) > 125:
        raise ValueError(f"the payload of a ping or pong has {len(payload)} bytes; at most 125 fit")
    return payload
