"""loop.sendfile() on a plain connection: what the program may do with it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from .conftest import Run
from .peers import Connection, Recorder, connect
from .socket_pairs import settle

# More than any socket buffer holds.
SIZE = 16 * 1024 * 1024


@contextmanager
def large_file(folder: Path) -> Iterator[BinaryIO]:
    path = folder / "large"
    with path.open("w+b") as file:
        file.truncate(SIZE)
        yield file


async def receive_until_end(link: Connection[Recorder]) -> int:
    """Read what the transport sends until it ends; returns the number of bytes."""
    loop = asyncio.get_running_loop()
    link.peer.setblocking(False)
    count = 0
    while part := await loop.sock_recv(link.peer, 1024 * 1024):
        count += len(part)
    return count


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_reading_that_is_resumed_meanwhile_does_not_end_it(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path, family: str
) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as link, large_file(tmp_path) as file:
            sending = asyncio.ensure_future(loop.sendfile(link.transport, file))
            await settle()
            link.transport.resume_reading()
            link.peer.send(b"meanwhile")
            receiving = asyncio.ensure_future(receive_until_end(link))
            assert await sending == SIZE
            assert await link.protocol.received(9) == b"meanwhile"
            assert link.transport.is_reading()
            link.transport.close()
            assert await receiving == SIZE

    run(main(), 10)


@pytest.mark.parametrize("way", ["close", "abort"])
def test_it_ends_when_the_program_closes_the_connection(
    loop: asyncio.AbstractEventLoop, run: Run, only_penstock: None, tmp_path: Path, way: str
) -> None:
    async def main() -> None:
        with await connect(Recorder) as link, large_file(tmp_path) as file:
            sending = asyncio.ensure_future(loop.sendfile(link.transport, file))
            await settle()
            getattr(link.transport, way)()
            with pytest.raises(ConnectionError, match="closed during sendfile"):
                await sending
            assert link.protocol.calls == ["made", "lost"]
            assert 0 < await receive_until_end(link) < SIZE

    run(main(), 10)


def test_a_connection_can_be_used_after_a_cancellation_before_its_begin(
    loop: asyncio.AbstractEventLoop,
    run: Run,
    only_penstock: None,
    contexts: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    async def main() -> None:
        with await connect(Recorder) as link, large_file(tmp_path) as file:
            link.transport.write(bytes(SIZE))
            sending = asyncio.ensure_future(loop.sendfile(link.transport, file))
            await settle()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            link.transport.write(b"end")
            link.peer.send(b"still read")
            assert await link.protocol.received(10) == b"still read"
            link.transport.close()
            assert await receive_until_end(link) == SIZE + 3

    run(main(), 10)
    assert contexts == []


def test_the_file_is_behind_the_range_also_if_that_is_empty(
    loop: asyncio.AbstractEventLoop, run: Run, only_penstock: None, tmp_path: Path
) -> None:
    async def main() -> None:
        with await connect(Recorder) as link, large_file(tmp_path) as file:
            file.seek(123)
            assert await loop.sendfile(link.transport, file, SIZE) == 0
            assert file.tell() == SIZE

    run(main(), 10)
