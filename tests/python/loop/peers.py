"""Protocols that record their callbacks, and raw sockets as their peers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Recording:
    """Records a protocol's callbacks in order."""

    def __init__(self, *, keep_open_on_eof: bool = False) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.lost_with: list[BaseException | None] = []
        self.connected = asyncio.Event()
        self.closed = asyncio.Event()
        self.ended = asyncio.Event()
        self.paused = asyncio.Event()
        self.resumed = asyncio.Event()
        self.transport: Any = None
        self._keep_open_on_eof = keep_open_on_eof
        self._progress = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self.transport = transport
        self.connected.set()

    def note(self, data: bytes) -> None:
        assert data
        if self.calls[-1] != "data":
            self.calls.append("data")
        self.data += data
        self._progress.set()

    def eof_received(self) -> bool:
        self.calls.append("eof")
        self.ended.set()
        self._progress.set()
        return self._keep_open_on_eof

    def pause_writing(self) -> None:
        self.calls.append("pause")
        self.paused.set()

    def resume_writing(self) -> None:
        self.calls.append("resume")
        self.resumed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("lost")
        self.lost_with.append(exc)
        self.closed.set()
        self._progress.set()

    async def received(self, count: int) -> bytes:
        """Wait until a total of `count` bytes has arrived."""
        while len(self.data) < count:
            assert not self.closed.is_set(), self.calls
            self._progress.clear()
            await self._progress.wait()
        return bytes(self.data)


class Recorder(Recording, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.note(data)


class BufferedRecorder(Recording, asyncio.BufferedProtocol):
    """Reads into its own buffer."""

    def __init__(self, size: int = 4096, *, keep_open_on_eof: bool = False) -> None:
        super().__init__(keep_open_on_eof=keep_open_on_eof)
        self.buffer = bytearray(size)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.note(bytes(self.buffer[:nbytes]))


class Connection(Generic[P]):
    """A transport under test, its protocol, and the blocking socket at the other end."""

    def __init__(self, transport: Any, protocol: P, peer: socket.socket) -> None:
        self.transport = transport
        self.protocol = protocol
        self.peer = peer

    def __enter__(self) -> Connection[P]:
        return self

    def __exit__(self, *_: object) -> None:
        # asyncio's abort() fails on a transport that has flushed and closed itself.
        if not self.transport.is_closing():
            self.transport.abort()
        self.peer.close()


async def connect(factory: Callable[[], P], family: str = "tcp") -> Connection[P]:
    """Connect a protocol through the running loop to a raw socket."""
    loop = asyncio.get_running_loop()
    if family == "unix":
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        transport, protocol = await loop.create_connection(factory, sock=ours)
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            transport, protocol = await loop.create_connection(factory, *listener.getsockname())
            peer, _ = listener.accept()
    peer.settimeout(30)
    # Small kernel buffers, so that a peer that does not read causes backpressure soon.
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    return Connection(transport, protocol, peer)


def receive_exactly(peer: socket.socket, count: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = peer.recv(min(1 << 20, count - len(chunks)))
        if not chunk:
            break
        chunks += chunk
    return bytes(chunks)


def receive_all(peer: socket.socket) -> bytes:
    chunks = bytearray()
    while chunk := peer.recv(1 << 20):
        chunks += chunk
    return bytes(chunks)


def reset(peer: socket.socket) -> None:
    """Close with a TCP reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def fill(transport: Any, protocol: Recording, chunk: bytes = b"x" * 65536) -> int:
    """Write until the transport pauses its protocol; returns the number of bytes written."""
    written = 0
    while not protocol.paused.is_set():
        transport.write(chunk)
        written += len(chunk)
    return written


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that no callback reports."""
    while not condition():  # noqa: ASYNC110 - there is no event to await
        await asyncio.sleep(0.001)


def unused_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port
