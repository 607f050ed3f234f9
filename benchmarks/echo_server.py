"""The TCP echo server of the echo page: one program, any asyncio loop, five ways to write it.

    python benchmarks/echo_server.py --loop penstock --style protocol

Prints its port as one line when it is ready, and ends when its standard input does. A loop that is
not installed, or does not implement what the style needs, ends it with exit code 69 and the reason
as the last line on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

# Where each loop's factory lives; any other loop is named "module:factory".
FACTORIES = {
    "penstock": "penstock:new_event_loop",
    "asyncio": "asyncio:new_event_loop",
    "uvloop": "uvloop:new_event_loop",
    "zloop": "zloop:new_event_loop",
    "rloop": "rloop:new_event_loop",
}

EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h
READ_SIZE = 64 * 1024


class Unavailable(Exception):
    """The loop cannot serve this style; the message tells why."""


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Turn Nagle's algorithm off, as asyncio does itself; not every loop does."""
    sock = transport.get_extra_info("socket")
    # Some loops hand out a socket object without setsockopt.
    with contextlib.suppress(AttributeError, NotImplementedError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class EchoProtocol(asyncio.Protocol):
    """Echo by ``data_received``."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        set_no_delay(transport)
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class EchoBufferedProtocol(asyncio.BufferedProtocol):
    """Echo by ``get_buffer`` and ``buffer_updated``.

    The slice is written without a copy. That is safe here, and only here, because the client has
    one message in flight, far smaller than the kernel's send buffer: the write never waits.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        set_no_delay(transport)
        self.transport: Any = transport
        self.view = memoryview(bytearray(READ_SIZE))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.view[:nbytes])


async def echo_streams(reader: Any, writer: Any) -> None:
    """Echo by a stream reader and writer."""
    set_no_delay(writer.transport)
    while data := await reader.read(READ_SIZE):
        writer.write(data)
        await writer.drain()
    writer.close()


async def echo_sock(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    """Echo by ``sock_recv`` and ``sock_sendall``."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while data := await loop.sock_recv(connection, READ_SIZE):
            await loop.sock_sendall(connection, data)


def listen() -> socket.socket:
    """Open a listening socket on a free loopback port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener.setblocking(False)
    return listener


async def serve_protocol(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> object:
    return await loop.create_server(EchoProtocol, sock=listener)


async def serve_buffered(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> object:
    return await loop.create_server(EchoBufferedProtocol, sock=listener)


async def serve_streams(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> object:
    return await asyncio.start_server(echo_streams, sock=listener)


async def serve_native_streams(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> object:
    # On any other loop than Penstock's this is asyncio.start_server: the style's peers.
    import penstock

    return await penstock.start_server(echo_streams, sock=listener)


async def serve_sock(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> object:
    await check_sock_calls(loop)
    clients: set[asyncio.Task[None]] = set()

    async def accept_all() -> None:
        while True:
            connection, _ = await loop.sock_accept(listener)
            task = loop.create_task(echo_sock(loop, connection))
            clients.add(task)
            task.add_done_callback(clients.discard)

    return loop.create_task(accept_all())


async def check_sock_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Use each call once, so that a missing one is told before the port is."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        await loop.sock_sendall(near, b"x")
        far.send(b"x")
        await loop.sock_recv(near, 1)
    with listen() as listener, socket.create_connection(listener.getsockname()):
        connection, _ = await loop.sock_accept(listener)
        connection.close()


Serve = Callable[[asyncio.AbstractEventLoop, socket.socket], Awaitable[object]]

STYLES: dict[str, Serve] = {
    "protocol": serve_protocol,
    "buffered": serve_buffered,
    "streams": serve_streams,
    "native-streams": serve_native_streams,
    "sock": serve_sock,
}


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Find the factory of the loop called ``name`` (or ``module:factory``)."""
    module, _, attribute = FACTORIES.get(name, name).partition(":")
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = getattr(
            importlib.import_module(module), attribute or "new_event_loop"
        )
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error
    return factory


async def serve(style: str) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    stdin_ended = asyncio.Event()
    listener = listen()
    port = listener.getsockname()[1]
    try:
        server = await STYLES[style](loop, listener)
    except NotImplementedError as error:
        raise Unavailable(f"the loop does not implement the style {style}: {error!r}") from error
    # add_reader, not a thread: a thread of the server's would be in its CPU time.
    loop.add_reader(0, lambda: None if os.read(0, 4096) else stdin_ended.set())
    print(port, flush=True)
    await stdin_ended.wait()
    del server


def main() -> int:
    """Run the server; the exit code."""
    parser = argparse.ArgumentParser(description="TCP echo server on a chosen event loop")
    known = ", ".join(FACTORIES)
    parser.add_argument("--loop", required=True, help=f"{known}, or module:factory")
    parser.add_argument("--style", required=True, choices=STYLES)
    arguments = parser.parse_args()
    try:
        factory = loop_factory(arguments.loop)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(arguments.style))
    except Unavailable as error:
        print(error, file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
