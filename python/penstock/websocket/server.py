"""Serving WebSocket connections."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import ssl as ssl_module
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, cast

from penstock import _core
from penstock._given_unix_socket import serve_on
from penstock.websocket.connection import Connection
from penstock.websocket.datastructures import Headers
from penstock.websocket.exceptions import ConnectionClosed, NegotiationError
from penstock.websocket.frames import sendable_close
from penstock.websocket.http11 import Request, Response, plain_response
from penstock.websocket.options import (
    ConnectionOptions,
    MaxQueue,
    MaxSize,
    WriteLimit,
    checked_compression,
    checked_seconds,
    checked_subprotocols,
    checked_token,
    logger_or_own,
)
from penstock.websocket.protocol import Side, State
from penstock.websocket.typing import DataLike, LoggerLike, PathLike, StatusLike

__all__ = ["Server", "ServerConnection", "broadcast", "serve", "unix_serve"]

_NO_LIMITS = (False, False, 15, 15)

Handler = Callable[["ServerConnection"], Awaitable[None]]
ProcessRequest = Callable[
    ["ServerConnection", Request], Awaitable[Response | None] | Response | None
]
ProcessResponse = Callable[
    ["ServerConnection", Request, Response], Awaitable[Response | None] | Response | None
]
SelectSubprotocol = Callable[["ServerConnection", Sequence[str]], str | None]


class ServerConnection(Connection):
    """A connection that a client has opened.

    Attributes:
        server: The server that has accepted it.
        username: The user that `basic_auth` has let in.
        handler: The handler that `route` has found for the path.
        handler_kwargs: The handler's arguments, which `route` has taken from the path.
    """

    side = Side.SERVER
    username: str
    handler: Callable[..., Awaitable[None]]
    handler_kwargs: Mapping[str, Any]

    def __init__(
        self, loop: asyncio.AbstractEventLoop, server: Server | None = None, **options: Any
    ) -> None:
        super().__init__(loop, **options)
        self.server = server

    def respond(self, status: StatusLike, text: str) -> Response:
        """Return a response that refuses the handshake, for `process_request`."""
        return plain_response(int(status), text)


class _ServerHandshake(asyncio.Protocol):
    """Reads the request, answers it, and becomes the connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._server._closing is not None:  # it was accepted just before
            self.abort()
            return
        self._server._opening.add(self)
        timeout = self._server._open_timeout
        if timeout is not None:
            self._timer = self._server._loop.call_later(timeout, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> None:
        self._server._opening.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._task is not None:
            # A client that sends before the answer waits for it, up to the read limit.
            if len(self._received) > 1 << 20 and self._transport is not None:
                self._transport.pause_reading()
            return
        try:
            parsed = _core.parse_websocket_request(
                self._received, _NO_LIMITS if self._server._compression else None
            )
        except ValueError as error:
            reason, status = error.args
            self._refuse(
                plain_response(status, f"Failed to open a WebSocket connection: {reason}.\n")
            )
            return
        if parsed is not None:
            self._task = self._server._loop.create_task(self._answer(parsed))
            self._server._tasks.add(self._task)
            self._task.add_done_callback(self._server._tasks.discard)

    def _refuse(self, response: Response) -> None:
        assert self._transport is not None
        self._transport.write(response.serialize())
        self._transport.close()

    async def _answer(self, parsed: tuple[Any, ...]) -> None:
        method, target, fields, size, error, status, accept, deflate = parsed
        body = method != "HEAD"
        server, transport = self._server, self._transport
        assert transport is not None
        request = Request(target, Headers(fields))
        connection = server._new_connection()
        connection.request = request
        connection.transport = transport
        try:
            response = await self._decide(connection, request, status, error, accept, deflate)
            if server._process_response is not None:
                replaced = server._process_response(connection, request, response)
                if inspect.isawaitable(replaced):
                    replaced = await replaced
                response = replaced or response
            written = response.serialize(body=body)
        except NegotiationError as reason:
            text = str(reason) or "no common subprotocol"
            response = plain_response(400, f"Failed to open a WebSocket connection: {text}.\n")
            written = response.serialize(body=body)
        except Exception:
            connection.logger.exception("opening handshake failed")
            response = plain_response(
                500,
                "Failed to open a WebSocket connection.\nSee server log for more information.\n",
            )
            written = response.serialize(body=body)
        if transport.is_closing():
            return
        connection.response = response
        if response.status_code != 101:
            transport.write(written)
            transport.close()
            return
        self._finish()
        own = None
        if deflate is not None:
            server_reset, client_reset, server_bits, client_bits, _ = deflate
            own = (server_bits, server_reset, client_bits, client_reset)
        transport.write(written)
        connection._open(transport, own)
        rest = self._received[size:]
        if rest:
            transport.resume_reading()
            connection.data_received(rest)
        await server._run_handler(connection)

    async def _decide(
        self,
        connection: ServerConnection,
        request: Request,
        status: int,
        error: str,
        accept: str,
        deflate: tuple[bool, bool, int, int, str] | None,
    ) -> Response:
        server = self._server
        if server._process_request is not None:
            answer = server._process_request(connection, request)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is not None:
                return answer
        if server._closing:
            return plain_response(503, "Server is shutting down.\n")
        if error:
            refusal = plain_response(status, f"Failed to open a WebSocket connection: {error}.\n")
            if status == 405:
                refusal.headers["Allow"] = "GET"
            return refusal
        if not server._allows(request.headers.get_all("Origin")):
            return plain_response(
                403, "Failed to open a WebSocket connection: invalid Origin header.\n"
            )
        headers = Headers(
            {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept}
        )
        if server._server_header is not None:
            headers["Server"] = server._server_header
        if deflate is not None:
            headers["Sec-WebSocket-Extensions"] = deflate[4]
        offered = [
            name.strip()
            for value in request.headers.get_all("Sec-WebSocket-Protocol")
            for name in value.split(",")
            if name.strip()
        ]
        connection.subprotocol = server._select(connection, offered)
        if connection.subprotocol is not None:
            headers["Sec-WebSocket-Protocol"] = connection.subprotocol
        return Response(101, "Switching Protocols", headers)


class Server:
    """A running WebSocket server, which `serve` returns. Not thread safe.

    It belongs to the event loop on which it was started.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        origins: Sequence[str | re.Pattern[str] | None] | None,
        subprotocols: Sequence[str] | None,
        select_subprotocol: SelectSubprotocol | None,
        compression: str | None,
        process_request: ProcessRequest | None,
        process_response: ProcessResponse | None,
        server_header: str | None,
        open_timeout: float | None,
        options: ConnectionOptions,
        create_connection: Callable[..., ServerConnection],
        extensions: object,
    ) -> None:
        self._options = options
        self._create_connection = create_connection
        self._connections: set[ServerConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        self._origins = origins
        self._subprotocols = checked_subprotocols(subprotocols)
        self._select_subprotocol = select_subprotocol
        self._compression = checked_compression(compression, extensions) and bool(
            _core.websocket_deflate
        )
        self._process_request = process_request
        self._process_response = process_response
        self._server_header = server_header
        self._open_timeout = checked_seconds("open_timeout", open_timeout)
        self._opening: set[_ServerHandshake] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def logger(self) -> LoggerLike:
        """The logger that `serve` got, or that of the package."""
        return self._options.logger

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop."""
        return self._loop

    @property
    def connections(self) -> set[ServerConnection]:
        """The open connections, in a new set: one may be closed while the caller iterates."""
        return {each for each in self._connections if each.state is State.OPEN}

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The listening sockets."""
        return tuple(self._server.sockets) if self._server is not None else ()

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._server is not None and self._server.is_serving()

    async def start_serving(self) -> None:
        """Accept connections, if `serve` was called with `start_serving=False`."""
        assert self._server is not None
        await self._server.start_serving()

    async def serve_forever(self) -> None:
        """Accept connections until `close` is called or this call is cancelled.

        Cancelling the call closes the server, as `close` does, and ends after that.
        """
        # asyncio's would wait, when cancelled, for connections that nothing closes.
        try:
            if self._closing is None and not self.is_serving():
                await self.start_serving()
            await self.wait_closed()
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise

    def close(self, close_connections: bool = True, code: int = 1001, reason: str = "") -> None:
        """Stop accepting connections, and close the open ones. `wait_closed` waits for the end.

        Args:
            close_connections: Whether to close open connections; if not, `wait_closed` waits until
                their handlers return.
            code: The code of the close frames.
            reason: The reason in the close frames, at most 123 bytes in UTF-8.

        Raises:
            ProtocolError: If the code or the reason cannot be sent. The server is not closed then.
        """
        sendable_close(code, reason)
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(close_connections, code, reason))

    async def wait_closed(self) -> None:
        """Wait until the server is closed and all handlers have returned.

        Cancelling the call ends the wait only; the closing goes on.
        """
        while self._closing is None:
            assert self._server is not None
            await self._server.wait_closed()
            if self._closing is None:
                self.close()
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()
        await self.wait_closed()

    async def _close(self, close_connections: bool, code: int, reason: str) -> None:
        assert self._server is not None
        self._server.close()
        for handshake in list(self._opening):
            if handshake._task is None:
                handshake.abort()
        if close_connections:
            closing = [connection.close(code, reason) for connection in self._connections]
            await asyncio.gather(*closing)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def _new_connection(self) -> ServerConnection:
        options = self._options
        return self._create_connection(
            self._loop,
            self,
            **options.arguments(),
        )

    async def _run_handler(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        try:
            if self._closing is not None:
                await connection.close(1001)
            await self._handler(connection)
        except Exception as error:
            # ConnectionClosed of this connection is the normal end of a handler. One of another
            # connection, for example of a proxy's to its origin server, is a failure.
            if isinstance(error, ConnectionClosed) and connection.state is not State.OPEN:
                await connection.close()
            else:
                connection.logger.exception("connection handler failed")
                await connection.close(1011)
        else:
            await connection.close()
        finally:
            self._connections.discard(connection)
            if connection.state is not State.CLOSED and connection.transport is not None:
                connection.transport.abort()

    def _allows(self, origins: list[str]) -> bool:
        if self._origins is None:
            return True
        if len(origins) > 1:
            return False
        origin = origins[0] if origins else None
        for allowed in self._origins:
            if isinstance(allowed, re.Pattern):
                if origin is not None and allowed.fullmatch(origin):
                    return True
            elif allowed == origin:
                return True
        return False

    def _select(self, connection: ServerConnection, offered: list[str]) -> str | None:
        if self._select_subprotocol is not None:
            selected = self._select_subprotocol(connection, offered)
            return None if selected is None else checked_token(selected)
        return next((name for name in self._subprotocols if name in offered), None)


class serve:  # a function for its users, who await it or enter it
    """Serve WebSocket connections.

    Use it as `server = await serve(handler, host, port)` or as `async with serve(...) as server`,
    which closes the server at the end. `handler(connection)` runs once for each connection, in a
    task of its own. After it returns, the connection is closed with code 1000; after an exception,
    with 1011.

    Works on any asyncio event loop; on Penstock's, messages cost less time.

    Args:
        handler: The coroutine function for a connection.
        host: The address to listen on, or several.
        port: The port to listen on.
        origins: The allowed values of the Origin field: texts, patterns, and None for a request
            without the field. None in place of the list allows all.
        extensions: None: permessage-deflate is the only extension, see `compression`.
        subprotocols: The supported subprotocols, the preferred one first.
        select_subprotocol: Called with the connection and the offered subprotocols; returns the
            selected one or None, instead of a choice from `subprotocols`. If it raises
            `NegotiationError`, the client gets the status 400.
        compression: "deflate" accepts permessage-deflate, if Penstock was built with zlib; None
            does not.
        process_request: Called with the connection and the request, and awaited if it returns an
            awaitable. A `Response` that it returns is sent instead of the handshake's; None goes on
            with the handshake.
        process_response: Called with the connection, the request and the response, and awaited if
            it returns an awaitable. A `Response` that it returns is sent instead.
        server_header: The Server field; None sends none.
        open_timeout: Seconds for the TLS handshake, and again for the opening handshake; None has
            no limit.
        ping_interval: Seconds between keepalive pings. This argument and the next six mean the
            same as for `connect`, which documents them.
        ping_timeout: Seconds in which something must arrive after a ping.
        close_timeout: Seconds for the closing handshake.
        max_size: The largest message, in bytes.
        max_queue: Messages that are received ahead of the handler.
        write_limit: Bytes in the transport's buffer at which `send` waits.
        logger: The logger, or its name.
        create_connection: Called instead of `ServerConnection` with the same arguments.
        ssl: The TLS context of a wss:// server.
        **kwargs: Passed to `loop.create_server`, for example `sock` or `reuse_port`.

    Raises:
        OSError: If the address cannot be bound.
    """

    def __init__(
        self,
        handler: Handler,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        origins: Sequence[str | re.Pattern[str] | None] | None = None,
        extensions: Sequence[Any] | None = None,
        subprotocols: Sequence[str] | None = None,
        select_subprotocol: SelectSubprotocol | None = None,
        compression: str | None = "deflate",
        process_request: ProcessRequest | None = None,
        process_response: ProcessResponse | None = None,
        server_header: str | None = "penstock",
        open_timeout: float | None = 10,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        max_size: MaxSize = 1 << 20,
        max_queue: MaxQueue = 16,
        write_limit: WriteLimit = None,
        logger: LoggerLike | str | None = None,
        create_connection: Callable[..., ServerConnection] | None = None,
        ssl: ssl_module.SSLContext | None = None,
        **kwargs: Any,
    ) -> None:
        if ssl is not None:
            # asyncio's default of 60 s would let a client that never begins TLS keep its socket.
            kwargs.setdefault("ssl_handshake_timeout", open_timeout)
        self._unix = bool(kwargs.pop("unix", False))
        self._listen = {"host": host, "port": port, "ssl": ssl, **kwargs}
        self._make = functools.partial(
            Server,
            handler,
            origins=origins,
            subprotocols=subprotocols,
            select_subprotocol=select_subprotocol,
            compression=compression,
            process_request=process_request,
            process_response=process_response,
            server_header=server_header,
            open_timeout=open_timeout,
            options=ConnectionOptions(
                ping_interval,
                ping_timeout,
                close_timeout,
                max_size,
                max_queue,
                write_limit,
                logger_or_own(logger),
            ),
            create_connection=create_connection or ServerConnection,
            extensions=extensions,
        )
        self._server: Server | None = None

    def __await__(self) -> Generator[Any, None, Server]:
        return self._serve().__await__()

    async def __aenter__(self) -> Server:
        self._server = await self._serve()
        return self._server

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        await self._server.__aexit__(*exc_info)

    async def _serve(self) -> Server:
        server = self._make()
        arguments = {name: value for name, value in self._listen.items() if value is not None}
        if "sock" in arguments:
            arguments.pop("host", None)
            arguments.pop("port", None)
        loop = server._loop

        def connect() -> _ServerHandshake:
            return _ServerHandshake(server)

        if self._unix and "sock" in arguments:
            server._server = await serve_on(loop, connect, **arguments)
        else:
            create = loop.create_unix_server if self._unix else loop.create_server
            server._server = await create(connect, **arguments)
        return server


def unix_serve(handler: Handler, path: PathLike | None = None, **kwargs: Any) -> serve:
    """Serve WebSocket connections on a Unix socket.

    Args:
        handler: The coroutine function for a connection.
        path: The socket's path; not needed with `sock`.
        **kwargs: As for `serve`, without host and port. The file of a given `sock` stays when the
            server closes, unless `cleanup_socket` is true (Python 3.13 and later).
    """
    return serve(handler, unix=True, path=path, **kwargs)


def broadcast(
    connections: Iterable[Connection],
    message: DataLike,
    raise_exceptions: bool = False,
    *,
    text: bool | None = None,
) -> None:
    """Send a message to many connections without waiting for slow ones.

    Connections that are not open are skipped. One that cannot send the message, for example because
    it is sending another in fragments, is skipped with a warning in the log.

    Args:
        connections: The receivers.
        message: The message, sent to each.
        raise_exceptions: Whether to raise the errors, after the last connection, instead of logging
            them.
        text: As for `Connection.send`.

    Raises:
        TypeError: If the message is neither str nor bytes-like.
        ExceptionGroup: With `raise_exceptions`, the errors of the connections that were skipped.
    """
    if not isinstance(message, DataLike):
        raise TypeError(f"a message must be str or bytes-like, not {type(message).__name__}")
    errors: list[Exception] = []
    for connection in connections:
        if connection.state is not State.OPEN:
            continue
        try:
            connection.write(message, text=text)
        except Exception as error:
            errors.append(error)
            if not raise_exceptions:
                connection.logger.warning("skipped broadcast to %r: %s", connection, error)
    if errors and raise_exceptions:
        raise ExceptionGroup("skipped broadcast", errors)
