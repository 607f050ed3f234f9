"""TLS connections for tests: both ends on the loop, or a blocking ssl socket at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from .certificates import client_context, server_context

C = TypeVar("C", bound=asyncio.BaseProtocol)
S = TypeVar("S", bound=asyncio.BaseProtocol)


class Pair(Generic[C, S]):
    """The two ends of a TLS connection, both on the loop."""

    def __init__(self, client: C, server: S, transport: Any) -> None:
        self.client = client
        self.server = server
        self.transport = transport


@asynccontextmanager
async def tls_server(
    factory: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[int]:
    """Serve a protocol over TLS; returns the port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        factory, "127.0.0.1", 0, ssl=context or server_context(), **options
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def tls_client(
    factory: Callable[[], C], port: int, context: ssl.SSLContext | None = None, **options: Any
) -> tuple[Any, C]:
    loop = asyncio.get_running_loop()
    return await loop.create_connection(
        factory,
        "127.0.0.1",
        port,
        ssl=context or client_context(),
        server_hostname=options.pop("server_hostname", "localhost"),
        **options,
    )


@asynccontextmanager
async def tls_pair(
    make_client: Callable[[], C],
    make_server: Callable[[], S],
    *,
    client: ssl.SSLContext | None = None,
    server: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[Pair[C, S]]:
    """Connect two protocols; abort open connections at the end."""
    made: list[S] = []

    def factory() -> S:
        made.append(make_server())
        return made[-1]

    async with tls_server(factory, server, **options) as port:
        transport, protocol = await tls_client(make_client, port, client, **options)
        other: Any = made[0]
        await other.connected.wait()
        try:
            yield Pair(protocol, made[0], transport)
        finally:
            transport.abort()
            other.transport.abort()
            mine: Any = protocol
            await mine.closed.wait()
            await other.closed.wait()


class BlockingServer:
    """A listening socket for blocking code in a thread."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def accept(self) -> socket.socket:
        self.listener.settimeout(30)
        connection, _ = self.listener.accept()
        connection.settimeout(30)
        return connection

    def accept_tls(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        return (context or server_context()).wrap_socket(self.accept(), server_side=True)

    def __enter__(self) -> BlockingServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()


def connect_tls(port: int, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    """Return a blocking TLS client's connection."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=30)
    return (context or client_context()).wrap_socket(raw, server_hostname="localhost")


def receive_until_end(connection: ssl.SSLSocket) -> bytes:
    """Read until close_notify; an end without it is an error."""
    chunks = bytearray()
    with contextlib.suppress(ssl.SSLZeroReturnError):
        while chunk := connection.recv(65536):
            chunks += chunk
    return bytes(chunks)
