"""The loop's thread never waits for a file server or for the daemon of a file system.

What cannot be answered from the kernel's memory is asked by the ring or by a worker. The daemon
here knows the thread of each request.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.fuse_server import CONTENT, FileServer
from tests.python.files.test_cancelling import settled, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    folder = tmp_path / "mounted"
    folder.mkdir()
    try:
        running = FileServer(folder)
    except OSError as error:
        pytest.skip(str(error))
    yield running
    running.close()


async def read_in_parts(path: Path) -> Any:
    async with files.open(path, "rb") as file:
        found = [await file.read(10), await file.readline(), await file.pread(5, 20_000)]
        found += await file.pread_many(3, [7, 19_000])
        buffer = bytearray(6)
        assert await file.readinto(buffer) == 6
        assert await file.seek(-4, os.SEEK_END) == len(CONTENT) - 4
        return [*found, bytes(buffer), await file.read(), await file.tell()]


async def read_directly(path: Path) -> Any:
    async with files.open(path, "rb", buffering=0) as file:
        return [await file.read(5000), await file.read()]


async def read_lines(path: Path) -> Any:
    async with files.open(path, encoding="utf-8") as file:
        return "".join([line async for line in file]).encode()


async def open_for_both(path: Path) -> Any:
    async with files.open(path, "r+b") as file:
        assert await file.write(CONTENT[:4]) == 4
        assert await file.pwrite(CONTENT[9:12], 9) == 3
        await file.flush()
        return await file.read(4)


async def open_and_abandon(path: Path) -> Any:
    file = await files.open(path, "rb")
    fd = file.fileno()
    file._fd = -1
    current_backend().abandon(fd)
    await until(settled)
    return await files.read_file(path)


async def read_many(path: Path) -> Any:
    return await files.read_files([path] * 5)


async def read_map(path: Path) -> Any:
    async with files.map(path) as mapped:
        return mapped[:]


CALLS: dict[str, tuple[Callable[[Path], Awaitable[Any]], Any]] = {
    "parts": (
        read_in_parts,
        [
            *(CONTENT[:10], CONTENT[10:11], CONTENT[20_000:20_005], CONTENT[7:10]),
            *(CONTENT[19_000:19_003], CONTENT[11:17], CONTENT[-4:], len(CONTENT)),
        ],
    ),
    "unbuffered": (read_directly, [CONTENT[:5000], CONTENT[5000:]]),
    "lines": (read_lines, CONTENT),
    "both": (open_for_both, CONTENT[4:8]),
    "abandoned": (open_and_abandon, CONTENT),
    "mapped": (read_map, CONTENT),
    "whole": (files.read_file, CONTENT),
    "many": (read_many, [CONTENT] * 5),
    "path": (lambda path: files.Path(path).read_bytes(), CONTENT),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CALLS)
async def test_the_thread_of_the_loop_asks_no_server(
    server: FileServer, name: str, known: bool, anyio_backend_name: str
) -> None:
    call, expected = CALLS[name]
    if known:  # the kernel knows the name from now on
        assert os.stat(server.path).st_size == len(CONTENT)
    server.asked_by(0)
    for _ in range(2):  # nothing is cached, then all of it
        with anyio.fail_after(60):
            assert await call(server.path) == expected
    asked = server.asked_by(threading.get_native_id())
    if anyio_backend_name == "trio":  # closes at once what nobody awaits
        asked = [each for each in asked if each != "flush"]
    assert asked == []


async def test_questions_are_answered_by_the_server_elsewhere(server: FileServer) -> None:
    os.stat(server.path)
    server.asked_by(0)
    assert (await files.stat(server.path)).st_size == len(CONTENT)
    assert await files.ospath.exists(server.path)
    assert await files.ospath.isfile(server.path)
    assert await files.ospath.getsize(server.path) == len(CONTENT)
    assert await files.access(server.path, os.R_OK)
    assert not await files.Path(server.path.with_name("missing")).exists()
    assert (await files.statvfs(server.path)).f_bsize == 4096
    target = server.path.parent.parent / "copy"
    assert await files.copy(server.path, target, sync=False) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert server.asked_by(threading.get_native_id()) == []


async def test_a_lock_is_waited_for_elsewhere(server: FileServer) -> None:
    os.stat(server.path)
    server.asked_by(0)
    lock = files.lock(server.path)
    async with lock:
        assert server.asked_by(threading.get_native_id()) == []
        assert lock.held
    async with files.lock(server.path, timeout=60):
        pass
