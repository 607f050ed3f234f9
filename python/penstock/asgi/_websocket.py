"""WebSocket connections of ASGI applications, on the connection of `penstock.websocket`."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock import _core
from penstock.asgi._errors import ClientDisconnected, is_cancelled, is_disconnect
from penstock.asgi._fields import date_value, head_bytes
from penstock.asgi._log import client_text, quoted_path
from penstock.asgi._types import Application, Message, Scope
from penstock.websocket.connection import Connection
from penstock.websocket.exceptions import ConnectionClosed
from penstock.websocket.frames import Close
from penstock.websocket.protocol import Side, State

_OF_HANDSHAKE = frozenset(
    {
        b"upgrade",
        b"connection",
        b"sec-websocket-accept",
        b"sec-websocket-extensions",
        b"sec-websocket-protocol",
    }
)
_OF_FRAMING = frozenset({b"connection", b"transfer-encoding"})
_OF_A_BODY = _OF_FRAMING | {b"content-length"}
_BINARY = (bytes, bytearray, memoryview)
# What is received, as `_receive_event` takes it.
_EVENTS: tuple[dict[str, Any], dict[str, Any], str, str] = (
    {"type": "websocket.receive", "text": ""},
    {"type": "websocket.receive", "bytes": b""},
    "text",
    "bytes",
)
_MOST_BEFORE_ACCEPT = 65536
_WINDOW_OF_4_KIB = (False, False, 12, 12)

SERVICE_RESTART = 1012


@dataclass(frozen=True, kw_only=True)
class WebSocketOptions:
    """How WebSocket connections behave; see `serve`."""

    max_size: int = 16 << 20
    max_queue: int = 32
    ping_interval: float | None = 20
    ping_timeout: float | None = 20
    per_message_deflate: bool = True


class WebSocketOwner(Protocol):
    """The server of a WebSocket connection."""

    app: Application
    tasks: set[asyncio.Task[None]]
    fields: list[tuple[bytes, bytes]]
    sends_date: bool
    logger: logging.Logger
    websocket: WebSocketOptions | None
    websockets: set[WebSocketSession]

    def on_websocket_end(self) -> None:
        """Called after each one that has ended."""


class _Connection(Connection):
    side = Side.SERVER


class WebSocketSession(asyncio.Protocol):
    """One WebSocket: the protocol of its handshake, and the two functions of its application."""

    _chunks = True  # a body without a length is marked by chunks

    def __init__(
        self,
        owner: WebSocketOwner,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        scope: Scope,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._owner = owner
        self._loop = loop
        self._transport = transport
        self._scope = scope
        self._on_end = on_end
        self._connection: _Connection | None = None
        self._received = bytearray()
        self._told = False
        # Of tasks of the application that receive while another one waits for a message.
        self._others: list[asyncio.Future[None]] = []
        self._denial: bytes | None = None  # what ends its body, once the application has begun one
        self._denial_has_body = True
        self._answered = False
        self._lost = False
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed_with: Close | None = None
        self._handshake: tuple[Any, ...] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self, context: contextvars.Context, head: bytes, rest: bytes) -> None:
        """Take over a connection whose client asks for a WebSocket, and run the application."""
        self._received += rest
        options = self._owner.websocket
        assert options is not None
        limits = _WINDOW_OF_4_KIB if options.per_message_deflate else None
        deflate = limits if _core.websocket_deflate else None
        self._transport.set_protocol(self)
        try:
            parsed = _core.parse_websocket_request(head, deflate, True)
        except ValueError as fault:  # HTTP/2 knows hosts that HTTP/1.1 does not
            reason, status = fault.args
            self._refuse(status, f"Failed to open a WebSocket connection: {reason}.\n")
            self._on_end()
            return
        assert parsed is not None
        self._handshake = parsed
        error, status = parsed[4], parsed[5]
        if error:
            more = ((b"sec-websocket-version", b"13"),) if status == 426 else ()
            self._refuse(status, f"Failed to open a WebSocket connection: {error}.\n", more)
            self._on_end()
            return
        scope = self._scope
        scope["type"] = "websocket"
        # A proxy may say either.
        scope["scheme"] = "wss" if scope["scheme"] in ("https", "wss") else "ws"
        del scope["method"]
        scope["subprotocols"] = [
            name.strip()
            for key, value in scope["headers"]
            if key == b"sec-websocket-protocol"
            for name in value.decode("latin-1").split(",")
            if name.strip()
        ]
        extensions: dict[str, Any] = {"websocket.http.response": {}}
        if "tls" in scope["extensions"]:
            extensions["tls"] = scope["extensions"]["tls"]
        scope["extensions"] = extensions
        # The task copies the context in which it is made.
        self._task = context.run(self._loop.create_task, self._run())
        self._owner.tasks.add(self._task)
        self._owner.websockets.add(self)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._owner.tasks.discard(task)
        if self._connection is not None:
            self._connection._lost.add_done_callback(self._leave)
        else:
            self._leave()

    def _leave(self, _: object = None) -> None:
        self._owner.websockets.discard(self)
        self._on_end()
        self._owner.on_websocket_end()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def shut_down(self) -> None:
        """Tell the client that the server restarts. Called when the server closes."""
        if self._connection is not None:
            self._close(Close(SERVICE_RESTART, ""))
        elif not self._answered:
            self._refuse(503, "Service Unavailable")
            self._closed_with = Close(SERVICE_RESTART, "")
            self._changed.set()

    # ---- the protocol, until the client is accepted

    def data_received(self, data: bytes) -> None:
        """Keep what comes before the answer."""
        if not self._answered:
            self._received += data
            if len(self._received) > _MOST_BEFORE_ACCEPT:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone before it was accepted, or after a refusal."""
        self._lost = True
        self._changed.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """Make a denial's sends wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let them continue."""
        self._writable.set()

    # ---- the application

    async def _run(self) -> None:
        logger = self._owner.logger
        try:
            result = await self._owner.app(self._scope, self._receive, self._send)
        except asyncio.CancelledError as error:
            asked = is_cancelled()
            if not asked:
                logger.error("Exception in ASGI application\n", exc_info=error)
            self._break_off(Close(SERVICE_RESTART if asked else 1011, ""))
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not is_disconnect(error):
                logger.error("Exception in ASGI application\n", exc_info=error)
            self._break_off(Close(1011, ""))
        else:
            if result is not None:
                logger.error("ASGI callable should return None, but returned '%s'.", result)
            elif not self._answered and not self._lost:
                logger.error("ASGI callable returned without sending handshake.")
            elif self._denial is not None:
                logger.error("ASGI callable returned without completing response.")
            self._break_off(Close(1000, ""))

    def _break_off(self, close: Close) -> None:
        if self._connection is not None:
            self._close(close)
        elif not self._answered and not self._lost:
            self._refuse(500, "Internal Server Error")
        elif self._denial is not None:
            self._transport.close()

    def _receive(self) -> Awaitable[Message]:
        # Without a coroutine of its own: it would cost as much as all else of a short message.
        connection = self._connection
        if connection is not None and self._told:
            return connection._receive_event(_EVENTS, self)
        return self._receive_first()

    async def _receive_first(self) -> Message:
        if not self._told:
            self._told = True
            return {"type": "websocket.connect"}
        while (connection := self._connection) is None:
            if self._lost or self._closed_with is not None or self._is_denied():
                return self._disconnect()
            self._changed.clear()
            await self._changed.wait()
        return await connection._receive_event(_EVENTS, self)

    # The native half calls the next three for `_receive_event`.

    async def _receive_in_turn(self) -> Message:
        connection = self._connection
        assert connection is not None
        while connection._waiting is not None:
            self._others.append(other := self._loop.create_future())
            connection._others_wait = True
            await other
        return await connection._receive_event(_EVENTS, self)

    def _let_others_receive(self) -> None:
        # All of them: the one that was chosen may have been cancelled.
        others, self._others = self._others, []
        for other in others:
            if not other.done():
                other.set_result(None)

    def _is_denied(self) -> bool:
        return self._answered and self._denial is None

    def _disconnect(self) -> Message:
        connection = self._connection
        close = None if connection is None else connection.close_rcvd
        close = self._closed_with or close or Close(1006, "")
        return {"type": "websocket.disconnect", "code": int(close.code), "reason": close.reason}

    def _send(self, message: Message) -> Awaitable[None]:
        connection = self._connection
        if connection is not None and connection._may_send and message["type"] == "websocket.send":
            data: Any = message.get("bytes")
            if data is None:
                data = message.get("text")
                fits = isinstance(data, str)
            else:
                fits = isinstance(data, _BINARY)
            if fits:
                sent = connection.send(data)
                return self._drained(sent) if connection._writing_paused else sent
        return self._send_otherwise(message)

    async def _drained(self, sent: Awaitable[None]) -> None:
        try:
            await sent
        except ConnectionClosed as error:
            raise ClientDisconnected("the client has closed the connection") from error

    async def _send_otherwise(self, message: Message) -> None:
        connection = self._connection
        kind = message["type"]
        if connection is None:
            await self._answer(kind, message)
        elif kind == "websocket.send":
            data = message.get("bytes")
            if data is None:
                data = message["text"]
                fits = isinstance(data, str)
            else:
                fits = isinstance(data, _BINARY)
            if not fits:
                # The connection would send another kind of message, or parts of an iterable.
                raise TypeError(
                    "a message must be bytes in 'bytes' or a string in 'text', not "
                    f"{type(data).__name__}"
                )
            try:
                if not connection._may_send:
                    self._refuse_send(kind)
                await connection.send(data)
            except ConnectionClosed as error:
                raise ClientDisconnected("the client has closed the connection") from error
        elif kind == "websocket.close":
            if self._closed_with is not None or connection.state is not State.OPEN:
                self._refuse_send(kind)
            close = Close(message.get("code", 1000), message.get("reason") or "")
            close.serialize()  # raises what cannot be sent
            self._close(close)
        else:
            raise RuntimeError(
                f"Expected ASGI message 'websocket.send' or 'websocket.close', but got {kind!r}."
            )

    def _refuse_send(self, kind: str) -> None:
        if self._closed_with is not None and self._closed_with.code != SERVICE_RESTART:
            raise RuntimeError(
                f"Unexpected ASGI message {kind!r}, after sending 'websocket.close'."
            )
        raise ClientDisconnected("the client has closed the connection")

    def _close(self, close: Close) -> None:
        # Without waiting for the client's close frame: the connection does that by itself.
        connection = self._connection
        if connection is not None and connection.state is State.OPEN:
            self._closed_with = close
            connection._send_close(close)
            connection._limit_closing()

    # ---- the answer to the handshake

    async def _answer(self, kind: str, message: Message) -> None:
        if self._denial is not None and kind == "websocket.http.response.body":
            await self._send_denial(message)
            return
        if self._answered:
            raise RuntimeError(
                f"Unexpected ASGI message {kind!r} sent, after response already completed."
            )
        if self._lost:
            raise ClientDisconnected("the client has closed the connection")
        if kind == "websocket.accept":
            self._accept(message)
        elif kind == "websocket.close":
            self._log_answer("403")
            self._refuse(403, "")
            self._changed.set()
        elif kind == "websocket.http.response.start":
            self._deny(message)
        else:
            raise RuntimeError(
                "Expected ASGI message 'websocket.accept', 'websocket.close' or "
                f"'websocket.http.response.start', but got {kind!r}."
            )

    def _log_answer(self, answer: str) -> None:
        self._owner.logger.info(
            '%s - "WebSocket %s" %s', client_text(self._scope), quoted_path(self._scope), answer
        )

    def _own_fields(self) -> list[tuple[bytes, bytes]]:
        date = [(b"date", date_value())] if self._owner.sends_date else []
        return [*date, *self._owner.fields]

    def _accept(self, message: Message) -> None:
        options = self._owner.websocket
        assert options is not None
        deflate = self._handshake[7]
        own = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", self._handshake[6].encode()),
        ]
        subprotocol = message.get("subprotocol")
        if subprotocol is not None:
            own.append((b"sec-websocket-protocol", subprotocol.encode("latin-1")))
        agreed = None
        if deflate is not None:
            own.append((b"sec-websocket-extensions", deflate[4].encode()))
            server_reset, client_reset, server_bits, client_bits, _ = deflate
            agreed = (server_bits, server_reset, client_bits, client_reset)
        given = [*message.get("headers", ())]
        head = head_bytes(101, [*own, *self._own_fields()], given, without=_OF_HANDSHAKE)
        connection = _Connection(
            self._loop,
            ping_interval=options.ping_interval,
            ping_timeout=options.ping_timeout,
            max_size=options.max_size,
            max_queue=options.max_queue,
            logger=self._owner.logger,
        )
        connection.subprotocol = subprotocol
        self._log_answer("[accepted]")
        self._answered = True
        self._write_head(head)
        connection._open(self._transport, agreed)
        self._connection = connection
        rest = bytes(self._received)
        if len(rest) > _MOST_BEFORE_ACCEPT:
            self._transport.resume_reading()
        self._received.clear()
        if rest:
            connection.data_received(rest)
        self._changed.set()

    def _deny(self, message: Message) -> None:
        status = int(message["status"])
        if not 200 <= status <= 999:
            raise ValueError(f"the status of a response must be from 200 to 999, not {status}")
        given = [*message.get("headers", ())]
        counted = any(name.lower() == b"content-length" for name, _ in given)
        own = [(b"connection", b"close"), *self._own_fields()]
        # RFC 9110, sections 15.3.5 and 15.4.5: a body would be taken for the next response.
        has_body = status not in (204, 304)
        chunked = self._chunks and not counted and has_body
        if chunked:
            own.append((b"transfer-encoding", b"chunked"))
        without = _OF_A_BODY if status == 204 else _OF_FRAMING
        head = head_bytes(status, own, given, without=without)
        self._log_answer(str(status))
        self._answered = True
        self._denial_has_body = has_body
        self._denial = b"0\r\n\r\n" if chunked else b""
        self._write_head(head)

    async def _send_denial(self, message: Message) -> None:
        if self._lost:
            raise ClientDisconnected("the client has closed the connection")
        body = bytes(memoryview(message.get("body", b"")))  # bytes() takes a number too
        if not self._denial_has_body:
            body = b""
        if body and self._denial:
            body = b"%x\r\n%b\r\n" % (len(body), body)
        assert self._denial is not None
        if message.get("more_body", False):
            self._transport.write(body)
            await self._writable.wait()
            return
        self._transport.write(body + self._denial)
        self._denial = None
        self._transport.close()
        self._changed.set()

    def _refuse(self, status: int, text: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        body = text.encode()
        own = [
            (b"connection", b"close"),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            *more,
            *self._own_fields(),
        ]
        self._answered = True
        self._write_head(head_bytes(status, own, ()), body)
        self._transport.close()

    def _write_head(self, head: bytes, body: bytes = b"") -> None:
        self._transport.write(head + body)
