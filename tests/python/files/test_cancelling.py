"""A cancelled await returns at once, the kernel's buffers stay valid, and nothing leaks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.open_files import open_files

pytestmark = pytest.mark.anyio


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop until a condition holds that has no event."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.lowlevel.checkpoint()


def in_flight() -> bool:
    return bool(current_backend().in_flight)


def settled() -> bool:
    return not in_flight()


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def open_below(folder: Path) -> list[str]:
    """Return the files that this process has open in a folder."""
    return [target for target in open_files() if target.startswith(str(folder))]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        if is_open(end):
            os.close(end)


async def cancel_in_flight(function: Callable[..., Any], *arguments: Any) -> None:
    """Call it in a task, and cancel the task once the operation is in flight."""
    assert await caught_in_flight(function, *arguments)


async def caught_in_flight(function: Callable[..., Any], *arguments: Any) -> bool:
    """The same; return False if the operation ended first, as an operation on a file may."""
    ended = False

    async def body() -> None:
        nonlocal ended
        try:
            await function(*arguments)
        finally:
            ended = True

    async with anyio.create_task_group() as group:
        group.start_soon(body)
        await until(lambda: ended or in_flight())
        in_time = not ended
        group.cancel_scope.cancel()
    assert ended
    return in_time


async def test_a_cancelled_read_of_a_pipe_returns_at_once_and_loses_no_data(
    pipe: tuple[int, int],
) -> None:
    async with files.open(pipe[0], "rb", closefd=False) as file:
        await cancel_in_flight(file.read, 5)
        os.write(pipe[1], b"hello world\n")
        assert await file.readline() == b"hello world\n"
        await cancel_in_flight(file.readline)
        os.write(pipe[1], b"half")
        await cancel_in_flight(file.readline)
        os.write(pipe[1], b" line\n")
        assert await file.readline() == b"half line\n"


async def test_a_cancelled_read_keeps_its_buffer_alive_for_the_kernel(
    pipe: tuple[int, int],
) -> None:
    buffer = bytearray(8)
    backend = current_backend()
    operation = backend.read_into(pipe[0], buffer, -1)
    await cancel_in_flight(lambda: operation)
    if operation.in_flight:
        with pytest.raises(BufferError):
            buffer.append(0)
    os.write(pipe[1], b"late")
    await until(settled)
    buffer.append(0)
    assert buffer[:8] in (b"late\0\0\0\0", bytes(8))


async def test_a_cancelled_write_keeps_its_data_alive_for_the_kernel(pipe: tuple[int, int]) -> None:
    data = bytearray(b"x" * (1 << 20))
    operation = current_backend().write(pipe[1], data, -1)
    await cancel_in_flight(lambda: operation)
    os.set_blocking(pipe[0], False)
    while operation.in_flight:
        try:
            part = os.read(pipe[0], 65536)
        except BlockingIOError:
            part = b""
        assert part == b"x" * len(part)
        await anyio.lowlevel.checkpoint()
    data.append(0)


async def test_the_descriptor_of_a_cancelled_opener_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    go_on = threading.Event()
    opened: list[int] = []

    def opener(path: Any, flags: int) -> int:
        go_on.wait(10)
        opened.append(os.open(path, flags))
        return opened[0]

    async def open_file() -> None:
        await files.open(tmp_path / "file", "rb", opener=opener)

    await cancel_in_flight(open_file)
    assert not opened
    go_on.set()
    await until(settled)
    assert opened == [] or not is_open(opened[0])


async def test_the_descriptor_of_a_cancelled_open_is_closed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def open_fifo() -> None:
        await files.open(fifo, "rb")

    await cancel_in_flight(open_fifo)
    await until(settled)  # although the pipe has no other end
    assert not open_below(tmp_path)


async def test_cancelled_opens_do_not_delay_other_operations(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with anyio.create_task_group() as group:
        # More than the number of threads.
        for _ in range(100):
            group.start_soon(files.read_file, tmp_path / "fifo")
        await until(in_flight)
        group.cancel_scope.cancel()
    with anyio.fail_after(60):
        await files.mkdir(tmp_path / "folder")
        await until(settled)
    assert not open_below(tmp_path)


async def test_closing_a_descriptor_waits_for_its_operations(pipe: tuple[int, int]) -> None:
    backend = current_backend()
    reading = backend.read(pipe[0], 4, -1).start()
    closing = backend.close(pipe[0]).start()
    assert reading.in_flight
    assert closing.in_flight
    assert is_open(pipe[0])
    os.write(pipe[1], b"data")
    assert await reading == b"data"
    await closing
    assert not is_open(pipe[0])


async def test_an_abandoned_descriptor_is_closed_after_its_last_operation(
    pipe: tuple[int, int],
) -> None:
    backend = current_backend()
    reading = backend.read(pipe[0], 4, -1).start()
    backend.abandon(pipe[0])
    assert is_open(pipe[0])
    os.write(pipe[1], b"data")
    assert await reading == b"data"
    await until(settled)
    assert not is_open(pipe[0])


async def test_closing_a_file_waits_for_earlier_calls(pipe: tuple[int, int]) -> None:
    file = await files.open(pipe[0], "rb")
    order: list[str] = []

    async def read() -> None:
        order.append((await file.read(4)).decode())

    async def close() -> None:
        await file.close()
        order.append("closed")

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await until(in_flight)
        group.start_soon(close)
        await anyio.lowlevel.checkpoint()
        assert not file.closed
        os.write(pipe[1], b"data")
    assert order == ["data", "closed"]
    assert not is_open(pipe[0])


async def test_a_cancelled_close_still_writes_and_closes(tmp_path: Path) -> None:
    file = await files.open(tmp_path / "file", "wb")
    await file.write(b"buffered")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await file.close()
    assert file.closed
    await until(settled)
    assert not open_below(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"buffered"


async def test_a_close_cancelled_before_its_turn_still_closes_in_its_turn(
    pipe: tuple[int, int],
) -> None:
    file = await files.open(pipe[0], "rb")
    read: list[bytes] = []

    async def read_some() -> None:
        read.append(await file.read(4))

    async with anyio.create_task_group() as group:
        group.start_soon(read_some)
        await until(in_flight)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await file.close()
        assert scope.cancelled_caught
        os.write(pipe[1], b"data")
    assert read == [b"data"]
    await until(settled)
    assert file.closed
    assert not is_open(pipe[0])


async def test_a_file_is_closed_when_a_cancelled_scope_ends(pipe: tuple[int, int]) -> None:
    """The scope cancels the call in the block, and then the close after it."""
    opened: list[Any] = []

    async def write() -> None:
        async with files.open(pipe[1], "wb", buffering=0) as file:
            opened.append(file)
            await file.write(bytes(1 << 20))  # more than a pipe's capacity

    await cancel_in_flight(write)
    await until(lambda: not is_open(pipe[1]))
    assert opened[0].closed


async def test_calls_that_use_the_position_run_in_order(tmp_path: Path) -> None:
    data = bytes(range(256)) * 30
    (tmp_path / "file").write_bytes(data)
    async with files.open(tmp_path / "file", "rb", buffering=0) as file:
        pieces: dict[int, bytes] = {}

        async def read(index: int) -> None:
            pieces[index] = await file.read(100)

        async with anyio.create_task_group() as group:
            for index in range(40):
                group.start_soon(read, index)
    # trio starts its tasks in any order, but each reads one piece.
    assert sorted(pieces.values()) == sorted(data[i : i + 100] for i in range(0, 4000, 100))


async def test_a_cancelled_wait_for_the_turn_passes_it_to_the_next_call(
    pipe: tuple[int, int],
) -> None:
    async with files.open(pipe[0], "rb", closefd=False) as file:
        results: list[bytes] = []

        async def read(size: int) -> None:
            results.append(await file.read(size))

        async with anyio.create_task_group() as group:
            group.start_soon(read, 2)
            await until(in_flight)
            async with anyio.create_task_group() as inner:
                inner.start_soon(read, 3)
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                inner.cancel_scope.cancel()
            group.start_soon(read, 4)
            await anyio.lowlevel.checkpoint()
            os.write(pipe[1], b"aabbbb")
        assert results == [b"aa", b"bbbb"]


async def test_a_write_repeated_after_a_cancel_leaves_the_file_whole(tmp_path: Path) -> None:
    data = os.urandom(4 << 20)
    async with files.open(tmp_path / "file", "wb") as file:
        await file.write(b"head")
        for _ in range(100):
            if await caught_in_flight(file.write, data):
                break
            await file.seek(4)
        else:
            pytest.fail("each write had ended before the loop's next turn")
        assert await file.tell() == 4
        await file.write(data)
    assert (tmp_path / "file").read_bytes() == b"head" + data


async def test_operations_that_nobody_awaits_end(tmp_path: Path, pipe: tuple[int, int]) -> None:
    backend = current_backend()
    backend.read(pipe[0], 4, -1).start().close()
    backend.write(pipe[1], b"data", -1).start()
    (tmp_path / "file").write_bytes(b"content")
    backend.open(tmp_path / "file", os.O_RDWR).start()
    await until(settled)


async def test_an_operation_can_be_awaited_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    operation = current_backend().read_file(tmp_path / "file")
    assert await operation == b"content"
    with pytest.raises(RuntimeError, match="already awaited"):
        await operation


async def test_a_cancelled_wait_for_several_files_leaves_nothing_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"content")
    paths = [tmp_path / "file", tmp_path / "fifo", tmp_path / "file"]
    await cancel_in_flight(files.read_files, paths)
    await until(settled)
    assert not open_below(tmp_path)
