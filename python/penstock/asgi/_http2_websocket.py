"""WebSocket connections on streams of HTTP/2 (RFC 8441): DATA frames carry what TCP would."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from penstock.asgi._types import Receive, Scope, Send
from penstock.asgi._websocket import WebSocketOwner, WebSocketSession

_HIGH_WATER = 65536
_OF_HTTP_1 = frozenset(
    {b"connection", b"upgrade", b"sec-websocket-accept", b"sec-websocket-key", b"content-length"}
)
# A stream has no such key: it is a handshake by itself.
_HANDSHAKE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


async def serve_websocket(
    owner: WebSocketOwner,
    connection: asyncio.Transport,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Run the application for a WebSocket on a stream; end with it.

    Args:
        owner: The server.
        connection: The transport of the stream's connection, which knows the addresses.
        scope: The scope of the request.
        receive: Tells what comes on the stream, as for the body of a request.
        send: Sends on the stream, as the body of a response.
    """
    loop = asyncio.get_running_loop()
    transport = _StreamTransport(connection)
    session = _StreamSession(owner, loop, transport, scope)
    lines = [
        b"%b: %b\r\n" % (name, value) for name, value in scope["headers"] if name not in _OF_HTTP_1
    ]
    head = b"GET / HTTP/1.1\r\n%b%b\r\n" % (b"".join(lines), _HANDSHAKE)
    session.start(contextvars.copy_context(), head, b"")
    # An error of either half ends the other one, and the stream.
    async with asyncio.TaskGroup() as halves:
        reading = halves.create_task(transport.receive_all(receive))
        try:
            await transport.send_all(send)
        finally:
            reading.cancel()
            transport.lose()


class _StreamTransport(asyncio.Transport):
    """A stream as a transport. It buffers what is written until `send_all` has sent it."""

    def __init__(self, connection: asyncio.Transport) -> None:
        super().__init__()
        self._connection = connection
        self._protocol: Any = None
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._waiting = bytearray()
        self._changed = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._closing = False
        self._lost = False
        self._paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The stream's limits are the server's."""

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Send the head of the response."""
        self._head = (status, fields)
        self._changed.set()

    def write(self, data: Any) -> None:
        if self._closing:
            return
        self._waiting += data
        self._changed.set()
        if len(self._waiting) > _HIGH_WATER and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        self._closing = True
        self._changed.set()

    def abort(self) -> None:
        self._waiting.clear()
        self.close()

    def lose(self, error: Exception | None = None) -> None:
        """Tell the protocol that the stream has ended, because of its error or without one."""
        if not self._lost:
            self._lost = self._closing = True
            self._changed.set()
            self._protocol.connection_lost(error)

    async def receive_all(self, receive: Receive) -> None:
        """Give the protocol what comes. An error of the protocol is raised; the stream is lost."""
        try:
            while True:
                await self._may_read.wait()
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.lose()
                    return
                if message["body"]:
                    self._protocol.data_received(message["body"])
                if not message["more_body"] and not self._protocol.eof_received():
                    self.close()
        except Exception as error:
            self.lose(error)
            raise

    async def send_all(self, send: Send) -> None:
        """Send what is written, until the transport is closed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._lost:
                return
            if self._head is not None:
                (status, fields), self._head = self._head, None
                await send({"type": "http.response.start", "status": status, "headers": fields})
            part = bytes(self._waiting)
            self._waiting.clear()
            if self._closing:
                await send({"type": "http.response.body", "body": part})
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
            if self._paused and not self._waiting:
                self._paused = False
                self._protocol.resume_writing()


class _StreamSession(WebSocketSession):
    """A WebSocket whose answer is that of a stream: 200 accepts, and no body has chunks."""

    _chunks = False

    def _write_head(self, head: bytes, body: bytes = b"") -> None:
        first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        status = int(first.split()[1])
        pairs = [line.split(b": ", 1) for line in lines]
        accepts = status == 101
        fields = [
            (name, value)
            for name, value in pairs
            if name.lower() not in (b"upgrade", b"connection", b"sec-websocket-accept")
        ]
        transport: Any = self._transport
        transport.begin(200 if accepts else status, fields)
        if body:
            transport.write(body)
