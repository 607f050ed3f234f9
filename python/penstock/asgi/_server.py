"""A running ASGI server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket as socket_module
import ssl as ssl_module
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from penstock import _core
from penstock._given_unix_socket import serve_on
from penstock.asgi._connection import Connection
from penstock.asgi._interfaces import as_asgi3
from penstock.asgi._lifespan import LifespanTask
from penstock.asgi._log import access_line, reporter
from penstock.asgi._options import ServerOptions
from penstock.asgi._proxy import ProxyHeaders, TrustedHosts
from penstock.asgi._types import Application, Scope
from penstock.asgi._unfinished import name_of_blocking_request, names_of_requests
from penstock.asgi._unix_sending import UnixConnection, UnixSending
from penstock.asgi._websocket import WebSocketOptions, WebSocketSession

_SWEEP_INTERVAL = 1.0
_AFTER_DISCONNECT = 1.0
_AFTER_CANCEL = 4.0
_AFTER_LOSS = 1.0


class Server:
    """A running ASGI server, which `serve` returns.

    Only `unfinished` may be called in another thread than that of the server's event loop.
    """

    def __init__(self, app: Application, options: ServerOptions) -> None:
        self._loop = asyncio.get_running_loop()
        forwarded = None
        if options.proxy_headers:
            forwarded = ProxyHeaders(TrustedHosts(options.forwarded_allow_ips))
        self._options = options
        self.root_path: str = options.root_path
        self._lifespan = LifespanTask(app, options.lifespan, options.logger)
        self._drained = asyncio.Event()
        never = -1.0
        stall = options.timeout_http2_stall
        self.native: _core.HttpServer = _core.HttpServer(
            self._loop,
            app,
            self._lifespan.state,
            reporter(options.logger, self._drained.set),
            log_start=_log_start(options),
            on_refusal=_on_refusal(options),
            fields=options.response_fields(),
            date=options.date_header,
            keep_alive=options.timeout_keep_alive,
            head_time=never if options.timeout_head is None else options.timeout_head,
            body_time=never if options.timeout_body is None else options.timeout_body,
            head_size=options.limit_head_size,
            head_fields=options.limit_head_fields,
            limit_concurrency=options.limit_concurrency or 0,
            stall_time=never if stall is None else stall,
            http2=options.http2,
            websockets=options.ws,
            forwarded=forwarded,
        )
        self.app = app
        self.http2: bool = options.http2
        self.logger: logging.Logger = options.logger
        self.tasks: set[asyncio.Task[None]] = self.native.tasks
        self.fields: list[tuple[bytes, bytes]] = options.response_fields()
        self.sends_date: bool = options.date_header
        self.websocket: WebSocketOptions | None = options.websocket()
        self.websockets: set[WebSocketSession] = set()
        self._listeners: list[asyncio.Server] = []
        self._unix_sending: UnixSending | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._thread = threading.get_ident()
        self._aborted = False
        self._patience: asyncio.Timeout | None = None
        self._closed = asyncio.Event()

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The listening sockets."""
        return tuple(socket for listener in self._listeners for socket in listener.sockets)

    @property
    def port(self) -> int:
        """The port of the first listening socket, for a server that was started with port 0.

        Raises:
            RuntimeError: If the server does not listen on a port.
        """
        for listener in self.sockets:
            if listener.family in (socket_module.AF_INET, socket_module.AF_INET6):
                return int(listener.getsockname()[1])
        raise RuntimeError("the server does not listen on a port")

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        return self.native.open_connections

    @property
    def total_requests(self) -> int:
        """The number of requests since the start."""
        return self.native.total_requests

    def unfinished(self) -> list[str]:
        """Return a text for the log about each running request and its client.

        It has at most five of them, and the number of the others. May be called in another thread.
        """
        names = names_of_requests(list(self.native.tasks))
        if self._thread != threading.get_ident():
            blocking = name_of_blocking_request(self._thread)
            if blocking is not None and blocking not in names:
                names.insert(0, blocking)
        return names

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._closing is None and bool(self._listeners)

    def close(self) -> None:
        """Stop accepting connections, and end the open ones after their responses.

        `wait_closed` waits for the end. A request that has not ended after
        `timeout_graceful_shutdown` receives http.disconnect, and its task is cancelled a second
        later. Its connection is aborted when the tasks have ended, at the latest after 4 seconds.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())

    def abort(self) -> None:
        """Close without waiting: cancel the requests and abort the connections.

        `wait_closed` then waits at most 4 seconds for the requests' tasks, and at most 4 seconds
        for the lifespan.
        """
        self._aborted = True
        self.close()
        self.native.disconnect()
        for task in list(self.native.tasks):
            task.cancel("the server was aborted")
        self._abort_connections()
        if self._patience is not None:
            with contextlib.suppress(RuntimeError):  # it is over already
                self._patience.reschedule(self._loop.time() + _AFTER_CANCEL)

    async def wait_closed(self) -> None:
        """Wait until `close` was called, and the last request and the lifespan have ended.

        Cancelling the call ends the wait only; the closing goes on.

        Raises:
            LifespanFailed: If the application's shutdown has failed.
        """
        await self._closed.wait()
        assert self._closing is not None
        await asyncio.shield(self._closing)

    async def serve_forever(self) -> None:
        """Serve until `close` is called and the server is closed, as `wait_closed` waits for it.

        Cancelling the call closes the server, waits for the end, and raises CancelledError.

        Raises:
            LifespanFailed: If the application's shutdown has failed.
        """
        try:
            await self.wait_closed()
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()
        await self.wait_closed()

    async def _start(self, listen: dict[str, Any]) -> None:
        await self._lifespan.start()
        try:
            await self._listen(**listen)
        except BaseException:
            for listener in self._listeners:
                listener.close()
            await self._lifespan.stop()
            raise
        self._sweep()

    async def _listen(
        self,
        *,
        host: str | Sequence[str] | None,
        port: int,
        uds: str | None,
        sock: socket_module.socket | Sequence[socket_module.socket] | None,
        backlog: int,
        **others: Any,
    ) -> None:
        others["backlog"] = backlog
        loop, listeners = self._loop, self._listeners
        if uds is not None:
            listeners.append(await loop.create_unix_server(self._connect_unix, uds, **others))
        elif sock is not None:
            for each in [sock] if isinstance(sock, socket_module.socket) else sock:
                if each.family == socket_module.AF_UNIX:
                    listeners.append(await serve_on(loop, self._connect_unix, each, **others))
                else:
                    listeners.append(await loop.create_server(self._connect, sock=each, **others))
        else:
            listeners.append(await loop.create_server(self._connect, host, port, **others))
        self._limit_sending()

    def _limit_sending(self) -> None:
        # A timer here would see neither sendfile(2) nor data that the kernel sends after a close.
        seconds = self._options.timeout_send
        if seconds is None:
            return
        for each in self.sockets:
            if each.family in (socket_module.AF_INET, socket_module.AF_INET6):
                # uvloop's socket objects have no setsockopt. Accepted sockets inherit the option.
                with socket_module.socket(fileno=os.dup(each.fileno())) as listening:
                    milliseconds = max(1, min(round(seconds * 1000), 2**31 - 1))
                    listening.setsockopt(
                        socket_module.IPPROTO_TCP, socket_module.TCP_USER_TIMEOUT, milliseconds
                    )

    def _connect(self) -> Any:
        return Connection(self)

    def _connect_unix(self) -> Any:
        seconds = self._options.timeout_send
        if seconds is None:
            return Connection(self)
        if self._unix_sending is None:
            self._unix_sending = UnixSending(seconds)
        return UnixConnection(self, self._unix_sending)

    def _sweep(self) -> None:
        # One timer for all connections, so a time-out may be a second late. The timer is set first:
        # an error at one connection must not end the time-outs of the others.
        self._sweeping = self._loop.call_later(_SWEEP_INTERVAL, self._sweep)
        self.native.sweep()
        if self._unix_sending is not None:
            self._unix_sending.sweep(self.native.connections(), self._loop.time())

    async def _close(self) -> None:
        try:
            for listener in self._listeners:
                listener.close()
            self.native.drain()
            for session in list(self.websockets):
                session.shut_down()
            await self._end_requests()
            await self._end_lifespan()
        finally:
            if self._sweeping is not None:
                self._sweeping.cancel()
            self._lifespan.cancel()
            self._closed.set()

    def on_websocket_end(self) -> None:
        """Called by each WebSocket connection that has ended."""
        if self._closing is not None and self._is_drained():
            self._drained.set()

    def _is_drained(self) -> bool:
        native = self.native
        return native.open_connections == 0 and not native.tasks and not self.websockets

    async def _wait_until_drained(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds) as self._patience:
                while not self._is_drained():
                    self._drained.clear()
                    await self._drained.wait()
        except TimeoutError:
            return self._is_drained()
        finally:
            self._patience = None
        return True

    async def _end_requests(self) -> None:
        grace = _AFTER_CANCEL if self._aborted else self._options.timeout_graceful_shutdown
        if await self._wait_until_drained(grace):
            return
        if not self._aborted and await self._end_by_disconnect():
            return
        unfinished = self.unfinished()
        if unfinished:
            self._options.logger.error(
                "%d task(s) have not ended after their cancellation, and are abandoned: %s",
                len([task for task in self.native.tasks if not task.done()]),
                ", ".join(unfinished),
            )

    async def _end_by_disconnect(self) -> bool:
        self.native.disconnect()
        if await self._wait_until_drained(_AFTER_DISCONNECT):
            return True
        tasks = list(self.native.tasks)
        if tasks:
            self._options.logger.error(
                "Cancel %d running task(s), timeout graceful shutdown exceeded: %s",
                len(tasks),
                ", ".join(self.unfinished()),
            )
        for task in tasks:
            task.cancel("Task cancelled, timeout graceful shutdown exceeded")
        if tasks:
            await asyncio.wait(tasks, timeout=_AFTER_CANCEL)
        self._abort_connections()
        return await self._wait_until_drained(_AFTER_LOSS)

    async def _end_lifespan(self) -> None:
        try:
            async with asyncio.timeout(_AFTER_CANCEL if self._aborted else None) as self._patience:
                await self._lifespan.stop()
        except TimeoutError:
            self._options.logger.error("The application's shutdown has not ended, and is left")
        finally:
            self._patience = None

    def _abort_connections(self) -> None:
        for connection in self.native.connections():
            if connection.transport is not None:
                connection.transport.abort()
        for session in list(self.websockets):
            session.abort()


def _log_start(options: ServerOptions) -> Callable[[Scope, int], object] | None:
    if callable(options.access_log):
        return options.access_log
    return access_line(options.access_logger) if options.access_log else None


def _on_refusal(options: ServerOptions) -> Callable[[Scope, int], object] | None:
    log_start, on_refusal = _log_start(options), options.on_refusal
    if log_start is None or on_refusal is None:
        return log_start or on_refusal

    def both(scope: Scope, status: int) -> None:
        log_start(scope, status)
        on_refusal(scope, status)

    return both


class serve:  # a function for its users, who await it or enter it
    """Serve an application.

    Use it as `async with serve(app, port=8000) as server`, which closes the server at the end, or
    as `server = await serve(app)`. The application's lifespan begins before the server listens,
    and ends after its last request.

    Works on any asyncio event loop; on Penstock's, a request takes a shorter way, and its task
    begins at once.

    Args:
        app: The application, of ASGI or WSGI.
        host: The address to listen on, or several; None for all.
        port: The port to listen on; 0 for a free one, which `Server.port` has.
        uds: The path of a Unix socket, instead of host and port.
        sock: A listening socket, or several, instead of host and port. The file of a Unix socket
            stays when the server closes.
        ssl: The TLS context of an https server.
        backlog: Connections that the kernel keeps until they are accepted.
        interface: "asgi3", "asgi2" or "wsgi"; "auto" finds it by the application's parameters.
        wsgi_threads: The largest number of threads that run a WSGI application; see `wsgi`.
        wsgi_multiprocess: Whether other processes run the WSGI application too.
        root_path: Where the application is mounted behind a proxy that removes this prefix.
        proxy_headers: Whether X-Forwarded-For and X-Forwarded-Proto of a trusted proxy replace the
            scope's client and scheme.
        forwarded_allow_ips: The trusted proxies: addresses and networks, separated by commas,
            "unix" for those on a Unix socket, or "*" for all.
        lifespan: "on" requires that the application has a lifespan, "off" does not ask it.
        access_log: Whether each response is logged, by `access_logger`; or a function that is
            called with the scope and the status when a response begins.
        on_refusal: Called with the scope and the status of each response that the server sends
            without calling the application: 503 by `limit_concurrency`, 400 and other statuses for
            a request that cannot be served. If the head is not valid, the scope's method and path
            are "-". `access_log` has these responses in any case.
        server_header: Whether responses have the field Server.
        date_header: Whether responses have the field Date.
        headers: Further fields of every response.
        limit_concurrency: Connections or unfinished requests at which a request is answered with
            status 503.
        limit_head_size: Bytes of a request's head; beyond it the answer is 431 or 414.
        limit_head_fields: Fields of a request; beyond it the answer is 431.
        timeout_keep_alive: Seconds after which an idle connection is closed.
        timeout_head: Seconds in which a request's head must arrive; None for no limit.
        timeout_body: Seconds without a byte of a body that the application waits for, after which
            the answer is 408; None for no limit.
        timeout_send: Seconds after which a connection is reset whose client takes nothing of what
            was sent; None for no limit. On TCP by the kernel (TCP_USER_TIMEOUT; zero-window probes
            count since Linux 5.11), whether it carries TLS, HTTP/2 or a WebSocket. On a Unix socket
            by the server, up to two seconds late; its WebSockets are left to their pings.
        timeout_graceful_shutdown: Seconds that requests have to end when the server closes; None
            for no limit.
        http2: Whether clients may speak HTTP/2: those that choose it in the TLS handshake (the
            names that `ssl` offers are set to "h2" and "http/1.1"), and on a port without TLS
            those that begin with its preface. Off by default. It needs libnghttp2.
        timeout_http2_stall: Seconds after which the server gives a response up of which an HTTP/2
            client takes nothing; None for no limit.
        ws: Whether the server accepts WebSocket connections.
        ws_max_size: The largest received message, in bytes.
        ws_max_queue: Messages that are received ahead of the application.
        ws_ping_interval: Seconds between pings; None sends none.
        ws_ping_timeout: Seconds in which a client must answer a ping, or send anything else.
        ws_per_message_deflate: Whether the server accepts permessage-deflate (RFC 7692).
        logger: The logger for errors; "penstock.asgi" by default.
        access_logger: The logger for the access log; "penstock.access" by default.
        **kwargs: The options above from `interface` on, and further arguments of
            `loop.create_server`, for example `reuse_port`.

    Raises:
        OSError: If the address cannot be bound.
        LifespanFailed: If the application refuses to start.
        ValueError: If an option is out of its range.
        RuntimeError: If HTTP/2 is asked for and libnghttp2 is not there.
    """

    def __init__(
        self,
        app: Application,
        *,
        host: str | Sequence[str] | None = "127.0.0.1",
        port: int = 8000,
        uds: str | None = None,
        sock: socket_module.socket | Sequence[socket_module.socket] | None = None,
        ssl: ssl_module.SSLContext | None = None,
        backlog: int = 2048,
        **kwargs: Any,
    ) -> None:
        if sum(each is not None for each in (uds, sock)) > 1:
            raise ValueError("uds and sock both say where to listen; leave one out")
        names = ServerOptions.__dataclass_fields__
        options = {name: kwargs.pop(name) for name in list(kwargs) if name in names}
        self._options = chosen = ServerOptions(**options)
        self._app = as_asgi3(
            app,
            chosen.interface,
            threads=chosen.wsgi_threads,
            multiprocess=chosen.wsgi_multiprocess,
        )
        self._listen: dict[str, Any] = {
            "host": host,
            "port": port,
            "uds": uds,
            "sock": sock,
            "backlog": backlog,
            **kwargs,
        }
        if ssl is not None:
            self._listen["ssl"] = ssl
            if self._options.http2:
                ssl.set_alpn_protocols(["h2", "http/1.1"])
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
        server = Server(self._app, self._options)
        await server._start(self._listen)
        return server
