"""Native streams: asyncio's reader and writer interface, with the reading side in the native core.

``penstock.open_connection``, ``penstock.start_server`` and their counterparts for Unix sockets take
asyncio's arguments and return objects with asyncio's methods. On other event loops they call
asyncio's own functions.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, cast

from penstock._core import Completed, ReadOperation, StreamProtocolCore, StreamReader
from penstock.loop._event_loop import Loop

if TYPE_CHECKING:
    import ssl

    ClientConnected = Callable[[StreamReader, "StreamWriter"], Coroutine[Any, Any, object] | object]

__all__ = [
    "StreamProtocol",
    "StreamReader",
    "StreamWriter",
    "open_connection",
    "open_unix_connection",
    "start_server",
    "start_unix_server",
]

_DEFAULT_LIMIT = 2**16

# asyncio makes tasks of coroutines only; these are coroutines, natively.
Coroutine.register(ReadOperation)
Coroutine.register(Completed)


async def open_connection(
    host: Any = None,
    port: Any = None,
    *,
    limit: int = _DEFAULT_LIMIT,
    **kwds: Any,
) -> tuple[StreamReader, StreamWriter]:
    """Connect and return (reader, writer).

    ``limit`` bounds a line, and half of the buffered data, in bytes. The other arguments are those
    of ``loop.create_connection``.

    Raises:
        OSError: if no address can be connected to.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        return await asyncio.open_connection(host, port, limit=limit, **kwds)  # type: ignore[return-value]
    protocol = StreamProtocol(limit, loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, **kwds)
    return protocol.reader, StreamWriter(transport, protocol, protocol.reader, loop)


async def start_server(
    client_connected_cb: ClientConnected,
    host: Any = None,
    port: Any = None,
    *,
    limit: int = _DEFAULT_LIMIT,
    **kwds: Any,
) -> asyncio.Server:
    """Serve: ``client_connected_cb(reader, writer)`` is called for each connection.

    A coroutine that it returns becomes a task. The other arguments are ``loop.create_server``'s.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        return await asyncio.start_server(
            client_connected_cb,  # type: ignore[arg-type]
            host,
            port,
            limit=limit,
            **kwds,
        )
    return await loop.create_server(
        lambda: StreamProtocol(limit, loop, client_connected_cb), host, port, **kwds
    )


async def open_unix_connection(
    path: Any = None, *, limit: int = _DEFAULT_LIMIT, **kwds: Any
) -> tuple[StreamReader, StreamWriter]:
    """``open_connection`` to a Unix socket."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        return await asyncio.open_unix_connection(path, limit=limit, **kwds)  # type: ignore[return-value]
    protocol = StreamProtocol(limit, loop)
    transport, _ = await loop.create_unix_connection(lambda: protocol, path, **kwds)
    return protocol.reader, StreamWriter(transport, protocol, protocol.reader, loop)


async def start_unix_server(
    client_connected_cb: ClientConnected,
    path: Any = None,
    *,
    limit: int = _DEFAULT_LIMIT,
    **kwds: Any,
) -> asyncio.Server:
    """``start_server`` on a Unix socket."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        return await asyncio.start_unix_server(
            client_connected_cb,  # type: ignore[arg-type]
            path,
            limit=limit,
            **kwds,
        )
    return await loop.create_unix_server(
        lambda: StreamProtocol(limit, loop, client_connected_cb), path, **kwds
    )


class StreamProtocol(StreamProtocolCore, asyncio.Protocol):
    """Feeds a reader from a transport, and lets writers wait while the transport is full."""

    # With slots, so that a dictionary exists only once a program sets an attribute of its own.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_client_connected_cb",
        "_closed",
        "_drain_waiters",
        "_loop",
        "_over_ssl",
        "_task",
        "reader",
    )

    def __init__(
        self, limit: int, loop: Loop, client_connected_cb: ClientConnected | None = None
    ) -> None:
        self._loop = loop
        self.reader: StreamReader = StreamReader(limit, loop)
        self._reader = self.reader
        self._client_connected_cb = client_connected_cb
        # A list, because an empty deque holds a block of half a KiB.
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._closed: asyncio.Future[None] = loop.create_future()
        self._task: asyncio.Task[Any] | None = None
        self._over_ssl = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a server's callback is called here.

        ``transport`` may be any object with a transport's methods, as for asyncio's own protocol.
        Programs replace ``create_server`` by functions whose transports have no base class.
        """
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        self._over_ssl = transport.get_extra_info("sslcontext") is not None
        self.reader.set_transport(transport)
        if self._client_connected_cb is None:
            return
        writer = StreamWriter(transport, self, self.reader, self._loop)
        try:
            result = self._client_connected_cb(self.reader, writer)
        except Exception as exc:
            self._report_unhandled(exc)
            return
        if asyncio.iscoroutine(result):
            self._task = self._loop.create_task(result)
            self._task.add_done_callback(self._client_done)

    def eof_received(self) -> bool:
        """The peer has ended its side; this side stays open, except for TLS."""
        self.reader.feed_eof()
        return not self._over_ssl

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended: wake readers and writers."""
        self._lost = True
        if exc is None:
            self.reader.feed_eof()
        else:
            self.reader.set_exception(exc)
        for waiter in (self._closed, *self._drain_waiters):
            if not waiter.done():
                if exc is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(exc)
        # wait_closed() and drain() raise it; nobody has to call them.
        if exc is not None:
            self._closed.exception()
        self._transport = None
        self._task = None

    def pause_writing(self) -> None:
        """The transport's buffer is over its high-water mark."""
        self._paused = True

    def resume_writing(self) -> None:
        """The transport's buffer is below its low-water mark again."""
        self._paused = False
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _client_done(self, task: asyncio.Task[Any]) -> None:
        transport = self._transport
        if task.cancelled():
            if transport is not None:
                transport.close()
            return
        exception = task.exception()
        if exception is not None:
            self._report_unhandled(exception)

    def _report_unhandled(self, exception: BaseException) -> None:
        transport = self._transport
        self._loop.call_exception_handler(
            {
                "message": "Unhandled exception in client_connected_cb",
                "exception": exception,
                "transport": transport,
            }
        )
        if transport is not None:
            transport.close()

    async def _drain_slowly(self) -> None:
        """The slow path of drain(): it waits, or raises."""
        exception = self.reader.exception()
        if exception is not None:
            raise exception
        if self._transport is not None and self._transport.is_closing():
            # Let connection_lost() run, so that a loop of write and drain ends.
            await asyncio.sleep(0)
        if self._lost:
            raise ConnectionResetError("Connection lost")
        if not self._paused:
            return
        waiter = self._loop.create_future()
        self._drain_waiters.append(waiter)
        try:
            await waiter
        finally:
            self._drain_waiters.remove(waiter)


class StreamWriter:
    """The sending side of a stream connection; asyncio.StreamWriter's interface."""

    write: Callable[[bytes | bytearray | memoryview], None]
    """Send data; data that the kernel does not take now are queued. Call ``drain()`` next."""

    writelines: Callable[[Iterable[bytes | bytearray | memoryview]], None]
    """Send several chunks with one system call."""

    drain: Callable[[], Awaitable[None]]
    """Wait until the write buffer is below its limit.

    Raises ConnectionResetError, or the reader's error, when the connection is lost.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        protocol: StreamProtocol,
        reader: StreamReader,
        loop: Loop,
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._reader = reader
        self._loop = loop
        # The native methods: a Python method around them would cost more than they do.
        self.write = transport.write
        self.writelines = transport.writelines
        self.drain = protocol.drain

    def __repr__(self) -> str:
        return f"<StreamWriter transport={self._transport!r} reader={self._reader!r}>"

    @property
    def transport(self) -> asyncio.Transport:
        """The underlying transport."""
        return self._transport

    def write_eof(self) -> None:
        """End the sending side after the queued data."""
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Whether ``write_eof`` works: not over TLS."""
        return self._transport.can_write_eof()

    def close(self) -> None:
        """Close when the queued data are sent; ``wait_closed()`` waits for that."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._transport.is_closing()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed; raise its error, if it has one."""
        await asyncio.shield(self._protocol._closed)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport has under ``name``, such as ``socket`` or ``peername``."""
        return self._transport.get_extra_info(name, default)

    async def start_tls(
        self,
        sslcontext: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> None:
        """Continue over TLS.

        Raises:
            ssl.SSLError: if the handshake fails.
            ConnectionError: if the connection is lost, or closed by this side meanwhile.
        """
        protocol = self._protocol
        await self.drain()
        transport = await self._loop.start_tls(
            self._transport,
            protocol,
            sslcontext,
            server_side=protocol._client_connected_cb is not None,
            server_hostname=server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        if transport is None:
            raise ConnectionAbortedError("start_tls(): the connection is closed; open another one")
        self._transport = protocol._transport = transport
        self._reader._replace_transport(transport)
        protocol._over_ssl = True
        self.write = transport.write
        self.writelines = transport.writelines

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        transport = getattr(self, "_transport", None)
        if transport is None or transport.is_closing() or sys.is_finalizing():
            return
        if self._loop.is_closed():
            warn("loop is closed", ResourceWarning, stacklevel=2)
        else:
            self.close()
            warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2)
