"""A child process that writes in each callback, and then ends or blocks without another callback.

``lost(new_loop, transport)`` runs such children and returns what their peer did not receive. What a
child has written before it ends or blocks must arrive: the program may never run the loop again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import signal
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .certificates import client_context, server_context

Write = Callable[[bytes], Awaitable[object] | None]
Open = Callable[[Any], Awaitable[Write]]
Receive = Callable[[int], bytes]

ROUNDS = range(1, 7)
TIMEOUT = 20.0


def _block(gate: int) -> None:
    os.read(gate, 1)


def _fork(gate: int) -> None:
    if os.fork() == 0:
        os._exit(0)
    os.read(gate, 1)


ENDS: dict[str, Callable[[int], object]] = {
    "_exit": lambda gate: os._exit(0),
    "exec": lambda gate: os.execv("/bin/true", ["true"]),
    "kill": lambda gate: os.kill(os.getpid(), signal.SIGKILL),
    "block": _block,
    "fork": _fork,
}


def expected(rounds: int) -> bytes:
    return b"".join(b"head body %d\n" % number for number in range(rounds))


async def _write_and_end(
    write: Write, rounds: int, end: Callable[[int], object], gate: int
) -> None:
    for number in range(rounds):
        for part in (b"head ", b"body %d\n" % number):
            drained = write(part)
            if drained is not None:
                await drained
        if number == rounds - 1:
            end(gate)
        await asyncio.sleep(0)


def _writer(writer: Any) -> Write:
    def write(data: bytes) -> Awaitable[object]:
        writer.write(data)
        drained: Awaitable[object] = writer.drain()
        return drained

    return write


# ---- the transports: what the child opens, and how the peer receives -----------------------------


def _listen_tcp() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


async def _protocol(address: Any) -> Write:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, *address)
    return lambda data: transport.write(data)


async def _streams(address: Any) -> Write:
    return _writer((await asyncio.open_connection(*address))[1])


async def _native_streams(address: Any) -> Write:
    import penstock

    return _writer((await penstock.open_connection(*address))[1])


async def _tls(address: Any) -> Write:
    _, writer = await asyncio.open_connection(
        *address, ssl=client_context(), server_hostname="localhost"
    )
    return _writer(writer)


async def _unix(path: Any) -> Write:
    return _writer((await asyncio.open_unix_connection(path))[1])


async def _pipe(fd: Any) -> Write:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(fd, "wb", 0))
    return lambda data: transport.write(data)


async def _datagrams(address: Any) -> Write:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=address
    )
    return lambda data: transport.sendto(data)


async def _websocket(address: Any) -> Write:
    from penstock.websocket import connect

    connection = await connect("ws://{}:{}".format(*address), compression=None)
    return lambda data: connection.send(data)


@contextmanager
def _accepting(listener: socket.socket, address: Any) -> Iterator[tuple[Any, Callable[[], Any]]]:
    def accept() -> socket.socket:
        connection, _ = listener.accept()
        connection.settimeout(TIMEOUT)
        return connection

    with listener:
        listener.settimeout(TIMEOUT)
        yield address, accept


def _at_most(connection: Any) -> Receive:
    def receive(size: int) -> bytes:
        received = b""
        while len(received) < size and (data := connection.recv(size - len(received))):
            received += data
        return received

    return receive


@contextmanager
def _stream_peer(tls: bool = False, websocket: bool = False) -> Iterator[Any]:
    listener = _listen_tcp()
    with _accepting(listener, listener.getsockname()) as (address, accept):

        def peer() -> Receive:
            connection = accept()
            if tls:
                context = server_context()
                # A child that ends with a ticket unread resets the connection, and drops its data.
                context.num_tickets = 0
                connection = context.wrap_socket(connection, server_side=True)
            if websocket:
                return _messages(connection)
            return _at_most(connection)

        yield address, peer


@contextmanager
def _unix_peer() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        with _accepting(listener, path) as (address, accept):
            yield address, lambda: _at_most(accept())


@contextmanager
def _pipe_peer() -> Iterator[Any]:
    receiving, sending = os.pipe()

    def peer() -> Receive:
        os.close(sending)
        return _at_most(_PipeEnd(receiving))

    try:
        yield sending, peer
    finally:
        os.close(receiving)


class _PipeEnd:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def recv(self, size: int) -> bytes:
        return os.read(self._fd, size)


@contextmanager
def _datagram_peer() -> Iterator[Any]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(TIMEOUT)

        def receive(size: int) -> bytes:
            received = b""
            while len(received) < size:
                received += receiver.recv(size)
            return received

        yield receiver.getsockname(), lambda: receive


def _messages(connection: socket.socket) -> Receive:
    """Answer the handshake of a WebSocket client, and join the payloads of its short frames."""
    receive = _at_most(connection)
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        request += receive(1)
    (key,) = re.findall(rb"(?i)sec-websocket-key: *(\S+)", request)
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )

    def payloads(size: int) -> bytes:
        received = b""
        while len(received) < size and (head := receive(6)):
            payload = receive(head[1] & 0x7F)
            received += bytes(byte ^ head[2 + i % 4] for i, byte in enumerate(payload))
        return received

    return payloads


TRANSPORTS: dict[str, tuple[Open, Callable[[], Any]]] = {
    "protocol": (_protocol, _stream_peer),
    "streams": (_streams, _stream_peer),
    "native streams": (_native_streams, _stream_peer),
    "tls": (_tls, lambda: _stream_peer(tls=True)),
    "unix": (_unix, _unix_peer),
    "pipe": (_pipe, _pipe_peer),
    "datagrams": (_datagrams, _datagram_peer),
    "websocket": (_websocket, lambda: _stream_peer(websocket=True)),
}


# ---- the run -------------------------------------------------------------------------------------


def _received(
    new_loop: Callable[[], asyncio.AbstractEventLoop], transport: str, end: str, rounds: int
) -> bytes:
    open_writer, make_peer = TRANSPORTS[transport]
    with ExitStack() as stack:
        address, peer = stack.enter_context(make_peer())
        gate, opened = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(opened)

            async def main() -> None:
                await _write_and_end(await open_writer(address), rounds, ENDS[end], gate)

            try:
                new_loop().run_until_complete(main())
            finally:
                os._exit(1)
        os.close(gate)
        try:
            # A child that blocks lasts until all has arrived, or until this gives up.
            return bytes(peer()(len(expected(rounds))))
        except OSError as error:
            return repr(error).encode()
        finally:
            os.close(opened)
            os.waitpid(child, 0)


def lost(
    new_loop: Callable[[], asyncio.AbstractEventLoop], transport: str
) -> dict[tuple[str, int], bytes]:
    """What arrived of children that wrote more, by their end and the number of their rounds."""
    client_context()  # makes the authority that child and peer share
    arrived = {
        (end, rounds): _received(new_loop, transport, end, rounds)
        for end in ENDS
        for rounds in ROUNDS
    }
    return {case: data for case, data in arrived.items() if data != expected(case[1])}
