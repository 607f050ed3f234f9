"""What waits for another process keeps no other operation from working."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import penstock
from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.child_script import run_script

PIPES = 400
OPENINGS = 300

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def all_waiting(calls: list[Callable[[], Awaitable[Any]]]) -> AsyncIterator[None]:
    """Let the calls begin; cancel them at the end."""
    async with anyio.create_task_group() as tasks:

        async def wait(call: Callable[[], Awaitable[Any]]) -> None:
            await call()

        for call in calls:
            tasks.start_soon(wait, call)
        for _ in range(3):
            await checkpoint()
        yield
        tasks.cancel_scope.cancel()


async def use_files(folder: Path) -> None:
    """Calls that an engine makes in different ways: on workers, in the ring, in several steps."""
    with anyio.fail_after(30):
        await files.mkdir(folder / "made")
        assert "made" in await files.os.listdir(folder)
        await files.write_file(folder / "file", b"old")
        await files.write_file(folder / "file", b"new", atomic=True)
        assert (await files.stat(folder / "file")).st_size == 3
        await files.copy(folder / "file", folder / "copy")
        async with files.open(folder / "copy", "ab") as file:
            await file.write(b"er")
        assert await files.read_file(folder / "copy") == b"newer"


async def test_files_are_used_while_many_pipes_are_read(tmp_path: Path) -> None:
    pipes = [os.pipe() for _ in range(PIPES)]
    try:
        opened = [await files.open(reader, "rb", closefd=False) for reader, _ in pipes]
        async with all_waiting([file.readline for file in opened]):
            await use_files(tmp_path)
        lines = []

        async def read(file: files.BinaryFile) -> None:
            lines.append(await file.readline())

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for file in opened:
                    tasks.start_soon(read, file)
                for _, writer in pipes:
                    os.write(writer, b"line\n")
        assert lines == [b"line\n"] * PIPES
        for file in opened:
            await file.close()
    finally:
        for ends in pipes:
            for end in ends:
                os.close(end)


@pytest.mark.parametrize("way", ["read_file", "rb", "wb", "write_file"])
async def test_files_are_used_while_many_fifos_are_opened(tmp_path: Path, way: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "read_file": lambda: files.read_file(fifo),
        "write_file": lambda: files.write_file(fifo, b"bytes"),
    }
    async with all_waiting([calls.get(way, lambda: files.open(fifo, way))] * OPENINGS):
        await use_files(tmp_path)


async def test_a_write_that_a_fifo_has_no_room_for_is_cancelled(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with all_waiting([lambda: files.write_file(fifo, bytes(1 << 20))] * 10):
            await use_files(tmp_path)
    finally:
        os.close(reader)


@pytest.mark.parametrize("way", ["write", "copy", "log"])
async def test_a_sequence_whose_step_is_queued_is_cancelled(tmp_path: Path, way: str) -> None:
    backend = current_backend()
    may_end = threading.Event()
    occupants = [backend.call(may_end.wait).start() for _ in range(64)]  # more than workers
    path = tmp_path / "file"
    path.write_bytes(b"old")
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "write": lambda: files.write_file(path, b"new", atomic=True),
        "copy": lambda: files.copy(path, tmp_path / "copy"),
        "log": lambda: files.AppendLog(tmp_path / "log").open(),
    }
    try:
        with anyio.fail_after(30):
            async with all_waiting([calls[way]]):
                pass
    finally:
        may_end.set()
        for occupant in occupants:
            await occupant
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_operation_that_has_only_yielded_never_begins_once_its_end_is_requested(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    async def main() -> None:
        backend = current_backend()
        fd = os.open(path, os.O_RDONLY)
        try:
            while True:  # until the task has used up its time and yields
                operation: Any = backend.read(fd, 1, 0)
                try:
                    operation.send(None)
                except StopIteration:
                    continue
                if not operation.in_flight:
                    break
                operation.close()
            operation.request_end()
            with pytest.raises(OSError) as raised:
                operation.send(None)
            assert raised.value.errno == errno.ECANCELED
        finally:
            os.close(fd)

    penstock.run(main())


async def test_a_descriptor_that_others_share_stays_blocking() -> None:
    reader, writer = os.pipe()
    async with files.open(reader, "rb") as file:
        async with all_waiting([lambda: file.read(1)]):
            assert os.get_blocking(reader)
        os.write(writer, b"x")
        assert await file.read(1) == b"x"
        assert os.get_blocking(reader)
    os.close(writer)


@pytest.mark.parametrize("run", ["penstock.run", "asyncio.run"])
def test_an_operation_for_which_no_thread_can_be_started_says_so(tmp_path: Path, run: str) -> None:
    result = run_script(
        f"""
        import asyncio, os, resource
        import penstock
        from penstock import files
        from penstock.files._backend import current_backend

        path = {os.fspath(tmp_path / "file")!r}

        async def main():
            current_backend()
            if os.geteuid() == 0:  # the limit does not apply to root
                os.setuid(65534)
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            for call in (
                files.write_file(path, b"new", atomic=True),
                files.os.listdir("/"),
            ):
                try:
                    await call
                except BlockingIOError as error:
                    print(error.filename, "no thread can be started" in str(error))

        {run}(main())
        """
    )
    path = tmp_path / "file"
    assert result.stdout == f"{path} True\nNone True\n", result.stderr
    assert not path.exists()
