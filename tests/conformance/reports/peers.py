"""What the cases talk to: protocols that record, linked transports, and waits without clocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.reports.case import Loop
from tests.python.loop.certificates import client_context, server_context

KINDS = {"TCP": ("tcp",), "Unix": ("unix",), "TLS": ("tls",)}
BULK = 1_000_000
PLAIN_KINDS = {"TCP": ("tcp",), "Unix": ("unix",)}


class Recorder(asyncio.Protocol):
    """Records its callbacks; `made` and `lost` can be awaited."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.received = bytearray()
        self.losses: list[BaseException | None] = []
        self.made: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.changed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if not self.made.done():
            self.made.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.changed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.losses.append(exc)
        self.changed.set()
        if not self.lost.done():
            self.lost.set_result(None)

    async def receives(self, size: int) -> bytes:
        """Wait until `size` bytes have come, or the connection is lost."""
        while len(self.received) < size and not self.lost.done():
            self.changed.clear()
            await self.changed.wait()
        return bytes(self.received)


@dataclass
class Link:
    """Two connected protocols of one loop: `near` has connected, `far` was accepted."""

    near: Any
    far: Any
    server: asyncio.AbstractServer


@contextlib.contextmanager
def unix_path() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "socket")


@contextlib.asynccontextmanager
async def linked(
    loop: Loop,
    kind: str,
    near: Callable[[], Any] = Recorder,
    far: Callable[[], Any] = Recorder,
) -> AsyncIterator[Link]:
    """Connect two protocols over TCP, a Unix socket or TLS; abort what is left at the end."""
    accepted: asyncio.Future[Any] = loop.create_future()

    def accept() -> Any:
        protocol = far()
        if not accepted.done():
            accepted.set_result(protocol)
        return protocol

    with unix_path() as path:
        if kind == "unix":
            server: Any = await loop.create_unix_server(accept, path)
            shrink(server.sockets[0])
            transport, protocol = await loop.create_unix_connection(near, path)
        else:
            secure = kind == "tls"
            server = await loop.create_server(
                accept, "127.0.0.1", 0, ssl=server_context() if secure else None
            )
            shrink(server.sockets[0])
            transport, protocol = await loop.create_connection(
                near,
                *address_of(server),
                ssl=client_context() if secure else None,
                server_hostname="localhost" if secure else None,
            )
        shrink(transport.get_extra_info("socket"))
        other = await accepted
        if hasattr(other, "made"):
            await other.made
        try:
            yield Link(protocol, other, server)
        finally:
            ends: tuple[Any, ...] = (transport, getattr(other, "transport", None))
            for end in ends:
                # asyncio's abort() of a lost connection raises, which is a case of its own.
                with contextlib.suppress(AttributeError):
                    end.abort()
            server.close()


def shrink(sock: Any) -> None:
    """Give the socket, or what a listener accepts, a kernel buffer that a bulk does not fit in."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)


def address_of(server: Any) -> tuple[str, int]:
    host, port = server.sockets[0].getsockname()[:2]
    return host, port


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def polls(loop: Loop, count: int = 4) -> None:
    """Wait until the loop has asked the kernel `count` times for ready descriptors.

    After that, what was ready before has been seen: the wait for "nothing more happens".
    """
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    try:
        for _ in range(count):
            seen: asyncio.Future[None] = loop.create_future()
            loop.add_reader(near, resolve, seen)
            far.send(b"x")
            await seen
            loop.remove_reader(near)
            near.recv(1)
            await asyncio.sleep(0)
    finally:
        near.close()
        far.close()


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def until(loop: Loop, holds: Callable[[], object]) -> None:
    """Wait for a condition that no callback tells of; the case's limit is the bound."""
    while not holds():
        await polls(loop, 1)


def open_descriptors() -> set[int]:
    """Return the open descriptors, without the one that lists them."""
    return {int(name) for name in os.listdir("/proc/self/fd") if is_open(int(name))}


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def reset(sock: socket.socket) -> None:
    """Close with RST instead of FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
