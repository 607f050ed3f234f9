"""The echo server of the echo pages: the same program for every asyncio loop, in several styles.

    python benchmarks/echo_server.py --loop penstock --style protocol

It listens on a free TCP port of the loopback interface, or with ``--unix PATH`` on a Unix socket,
and prints the port or the path when it is ready. With ``--certificate`` and ``--key`` (PEM files)
it uses TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    loop_factory,
    loop_parser,
    serve_until_stdin_ends,
)

READ_SIZE = 64 * 1024
UVLOOP_READ_SIZE = 256 * 1024
BACKLOG = 4096


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Turn Nagle's algorithm off, as asyncio does; not every loop does."""
    sock = transport.get_extra_info("socket")
    # The socket object of some loops has no setsockopt; a Unix socket has no such option.
    with contextlib.suppress(AttributeError, NotImplementedError, OSError):
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

    The slice is written without a copy. That is safe only because the client has one message in
    flight, far smaller than the kernel's send buffer, so that no write has to wait.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        set_no_delay(transport)
        self.transport: Any = transport
        self.view = memoryview(bytearray(READ_SIZE))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.view[:nbytes])


class EchoBufferedCopyProtocol(asyncio.BufferedProtocol):
    """Echo a copy by ``get_buffer`` and ``buffer_updated``: correct for messages of any size."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        set_no_delay(transport)
        self.transport: Any = transport
        self.buffer = bytearray(UVLOOP_READ_SIZE)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])


async def echo_streams(reader: Any, writer: Any) -> None:
    """Echo by a stream reader and writer."""
    set_no_delay(writer.transport)
    while data := await reader.read(READ_SIZE):
        writer.write(data)
        await writer.drain()
    writer.close()


async def echo_streams_undrained(reader: Any, writer: Any) -> None:
    """Echo by a stream reader and writer: read whatever is available, never ``drain``."""
    set_no_delay(writer.transport)
    while data := await reader.read(1_000_000):
        writer.write(data)
    writer.close()


async def echo_sock(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    """Echo by ``sock_recv`` and ``sock_sendall``."""
    connection.setblocking(False)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while data := await loop.sock_recv(connection, READ_SIZE):
            await loop.sock_sendall(connection, data)


# The path of a Unix socket, or a port of loopback.
Address = str | int
LOOPBACK = "127.0.0.1"


def listen(address: Address = 0) -> socket.socket:
    """Open a listening socket."""
    if isinstance(address, int):
        listener = socket.create_server((LOOPBACK, address), backlog=BACKLOG)
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def free_port() -> int:
    """A port that is free now. Some loops neither take a socket nor tell their port."""
    with listen() as listener:
        port: int = listener.getsockname()[1]
    return port


Tls = ssl.SSLContext | None
Serve = Callable[[asyncio.AbstractEventLoop, Address, Tls], Awaitable[object]]


def protocol_server(protocol: Callable[[], asyncio.BaseProtocol]) -> Serve:
    """A style that uses a protocol."""

    async def serve(loop: asyncio.AbstractEventLoop, address: Address, tls: Tls) -> object:
        if isinstance(address, str):
            return await loop.create_unix_server(protocol, address, ssl=tls, backlog=BACKLOG)
        return await loop.create_server(protocol, LOOPBACK, address, ssl=tls, backlog=BACKLOG)

    return serve


def streams_server(echo: Callable[[Any, Any], Awaitable[None]]) -> Serve:
    """A style that uses asyncio's streams."""

    async def serve(loop: asyncio.AbstractEventLoop, address: Address, tls: Tls) -> object:
        if isinstance(address, str):
            return await asyncio.start_unix_server(echo, address, ssl=tls, backlog=BACKLOG)
        return await asyncio.start_server(echo, LOOPBACK, address, ssl=tls, backlog=BACKLOG)

    return serve


async def serve_native_streams(
    loop: asyncio.AbstractEventLoop, address: Address, tls: Tls
) -> object:
    # On loops other than Penstock's, these are asyncio's functions: the peers of this style.
    import penstock

    if isinstance(address, str):
        return await penstock.start_unix_server(echo_streams, address, ssl=tls, backlog=BACKLOG)
    return await penstock.start_server(echo_streams, LOOPBACK, address, ssl=tls, backlog=BACKLOG)


async def serve_sock(loop: asyncio.AbstractEventLoop, address: Address, tls: Tls) -> object:
    if tls is not None:
        raise Unavailable("loop.sock_recv and related methods have no TLS")
    await check_sock_calls(loop)
    listener = listen(address)
    clients: set[asyncio.Task[None]] = set()

    async def accept_all() -> None:
        while True:
            connection, _ = await loop.sock_accept(listener)
            task = loop.create_task(echo_sock(loop, connection))
            clients.add(task)
            task.add_done_callback(clients.discard)

    return loop.create_task(accept_all())


async def check_sock_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Use each call once, so that a missing one is reported before the port is printed."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        await loop.sock_sendall(near, b"x")
        far.send(b"x")
        await loop.sock_recv(near, 1)
    with listen() as listener, socket.create_connection(listener.getsockname()):
        connection, _ = await loop.sock_accept(listener)
        connection.close()


STYLES: dict[str, Serve] = {
    "protocol": protocol_server(EchoProtocol),
    "buffered": protocol_server(EchoBufferedProtocol),
    "buffered-copy": protocol_server(EchoBufferedCopyProtocol),
    "streams": streams_server(echo_streams),
    "streams-undrained": streams_server(echo_streams_undrained),
    "native-streams": serve_native_streams,
    "sock": serve_sock,
}


async def serve(style: str, path: str | None, tls: Tls) -> None:
    """Serve until standard input ends."""
    address = free_port() if path is None else path
    try:
        server = await STYLES[style](asyncio.get_running_loop(), address, tls)
    except (AttributeError, NotImplementedError) as error:
        raise Unavailable(f"the loop does not implement the style {style}: {error!r}") from error
    await serve_until_stdin_ends(address)
    del server


def main() -> None:
    """Run the server."""
    parser = loop_parser("Echo server on a chosen event loop")
    parser.add_argument("--style", required=True, choices=STYLES)
    parser.add_argument("--unix", metavar="PATH", help="listen there instead of on a TCP port")
    parser.add_argument("--certificate", metavar="FILE", help="with --key: speak TLS")
    parser.add_argument("--key", metavar="FILE", help="the certificate's private key")
    arguments = parser.parse_args()
    tls = None
    if arguments.certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(arguments.certificate, arguments.key)
    with asyncio.Runner(loop_factory=loop_factory(arguments.loop)) as runner:
        runner.run(serve(arguments.style, arguments.unix, tls))


if __name__ == "__main__":
    sys.exit(exit_code(main))
