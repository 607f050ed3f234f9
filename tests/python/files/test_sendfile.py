"""``file.sendfile`` to each kind of target, on each loop."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 12_000 + b"end"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return path


class Reader:
    """Reads a descriptor to its end on a thread."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._parts: list[bytes] = []
        self._read = read
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while data := self._read(1 << 16):
            self._parts.append(data)

    async def content(self) -> bytes:
        await anyio.to_thread.run_sync(self._thread.join)
        return b"".join(self._parts)


async def test_to_a_socket(path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = Reader(theirs.recv)
        async with files.open(path, "rb") as file:
            await file.seek(5)
            assert await file.sendfile(ours) == len(CONTENT)
            assert await file.sendfile(ours, 100, 1000) == 1000
            assert await file.sendfile(ours, len(CONTENT) - 3, 10) == 3
            assert await file.sendfile(ours, len(CONTENT) + 10) == 0
            assert await file.sendfile(ours, 0, 0) == 0
            assert await file.tell() == 5
        ours.shutdown(socket.SHUT_WR)
        assert await reader.content() == CONTENT + CONTENT[100:1100] + b"end"


async def test_to_a_pipe_and_to_a_file(path: Path, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    reader = Reader(lambda size: os.read(read_end, size))
    try:
        async with files.open(path, "rb") as file:
            async with files.open(write_end, "wb") as pipe:
                await pipe.write(b"head")
                assert await file.sendfile(pipe) == len(CONTENT)
            async with files.open(tmp_path / "copy", "wb") as copy:
                await copy.write(b"head")
                assert await file.sendfile(copy, 3) == len(CONTENT) - 3
        assert await reader.content() == b"head" + CONTENT
    finally:
        os.close(read_end)
    assert (tmp_path / "copy").read_bytes() == b"head" + CONTENT[3:]


async def test_to_a_stream_of_anyio(path: Path) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    received: list[bytes] = []

    async def receive(stream: Any) -> None:
        async with stream:
            async for data in stream:
                received.append(data)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, receive)
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as stream,
            files.open(path, "rb") as file,
        ):
            await stream.send(CONTENT)
            assert await file.sendfile(stream) == len(CONTENT)
            await stream.send(b"tail")
    await listener.aclose()
    assert b"".join(received) == 2 * CONTENT + b"tail"


async def test_to_any_byte_stream(path: Path) -> None:
    class Collecting(anyio.abc.ByteSendStream):
        data = b""

        async def send(self, item: bytes) -> None:
            self.data += item

        async def aclose(self) -> None:
            raise NotImplementedError

    stream = Collecting()
    async with files.open(path, "rb") as file:
        assert await file.sendfile(stream, 1) == len(CONTENT) - 1
    assert stream.data == CONTENT[1:]


async def test_to_a_stream_writer_and_its_transport(path: Path, anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("asyncio's streams")
    received = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    _, writer = await asyncio.open_connection(host, port)
    async with files.open(path, "rb") as file:
        writer.write(CONTENT)
        assert await file.sendfile(writer) == len(CONTENT)
        writer.write(b"between")
        assert await file.sendfile(writer.transport, 7) == len(CONTENT) - 7
    writer.write(b"tail")
    writer.write_eof()
    assert await received == CONTENT * 2 + b"between" + CONTENT[7:] + b"tail"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_a_cancelled_send_has_sent_a_part_and_leaves_nothing_open(
    path: Path, no_descriptor_left: None
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        async with files.open(path, "rb") as file:
            async with anyio.create_task_group() as group:
                group.start_soon(file.sendfile, ours)
                await anyio.wait_readable(theirs)  # nobody reads, so it does not come to its end
                group.cancel_scope.cancel()
            ours.shutdown(socket.SHUT_WR)
            sent = await Reader(theirs.recv).content()
            assert 0 < len(sent) < len(CONTENT)
            assert CONTENT.startswith(sent)
            assert await file.pread(3, len(CONTENT) - 3) == b"end"


async def test_what_cannot_be_sent_is_refused(path: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with files.open(path, "rb") as file:
            with pytest.raises(ValueError, match="setblocking"):
                await file.sendfile(ours)
            ours.setblocking(False)
            for offset, count in (-1, 1), (0, -1):
                with pytest.raises(ValueError, match="-1 is negative"):
                    await file.sendfile(ours, offset, count)
            with pytest.raises(TypeError, match="cannot send to int"):
                await file.sendfile(1)
            theirs.close()
            with pytest.raises(BrokenPipeError):
                await file.sendfile(ours)
        with pytest.raises(ValueError, match="closed"):
            await file.sendfile(ours)
        async with files.open(tmp_path / "written", "wb") as written:
            with pytest.raises(OSError, match="writing only"):
                await written.sendfile(ours)
