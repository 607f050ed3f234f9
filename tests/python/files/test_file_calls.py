"""Calls of a file's methods are coroutines without a frame, and keep what coroutines promise."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import io
import os
import resource
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from tests.python.files.test_yielding import LongestRun, counted_turns

pytestmark = pytest.mark.anyio

CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "read": lambda file: file.read(3),
    "read all": lambda file: file.read(),
    "readline": lambda file: file.readline(),
    "tell": lambda file: file.tell(),
    "flush": lambda file: file.flush(),
    "close": lambda file: file.close(),
}


def work_for(seconds: float) -> None:
    """Compute, as a program between its awaits."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of lines."""
    file = tmp_path / "file"
    file.write_bytes(b"".join(b"%04d\n" % number for number in range(5000)))
    return file


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_a_call_that_is_not_awaited_does_nothing(path: Path, mode: str, name: str) -> None:
    async with files.open(path, mode) as file:
        call: Any = CALLS[name](file)
        assert asyncio.iscoroutine(call)
        assert call.__qualname__.endswith(f"File.{name.split()[0]}")
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            del call
            gc.collect()
        closed: Any = CALLS[name](file)
        closed.close()
        with pytest.raises(RuntimeError, match="already awaited"):
            await closed
        assert not file.closed
        assert await file.tell() == 0


async def test_a_read_at_an_offset_that_is_not_awaited_does_nothing(path: Path) -> None:
    async with files.open(path, "rb") as file:
        for name, call in (
            ("pread", file.pread(2, 0)),
            ("pread_many", file.pread_many(2, [0])),
        ):
            step: Any = call
            assert asyncio.iscoroutine(step)
            assert step.__qualname__ == f"BinaryFile.{name}"
            step.close()
            with pytest.raises(RuntimeError, match="already awaited"):
                await step


async def test_the_arguments_of_a_read_at_an_offset(path: Path) -> None:
    async with files.open(path, "rb") as file:
        assert await file.pread(size=4, offset=5) == await file.pread(4, offset=5) == b"0001"
        assert await file.pread_many(4, offsets=(0, 5)) == [b"0000", b"0001"]
        assert await file.pread(0, 7) == b""
        untyped: Any = file
        for wrong in (
            lambda: untyped.pread(4),
            lambda: untyped.pread(4, 0, 0),
            lambda: untyped.pread(4, size=4),
            lambda: untyped.pread(4, place=4),
            lambda: untyped.pread_many(4),
            lambda: untyped.pread(4, 1.5),
            lambda: untyped.pread("4", 0),
            lambda: untyped.pread_many(4, 7),
            lambda: untyped.pread_many(4, [0, "1"]),
        ):
            with pytest.raises(TypeError):
                await wrong()
        with pytest.raises(ValueError, match="negative"):
            await file.pread(1, -1)
        with pytest.raises(ValueError, match="cannot read -2 bytes"):
            await file.pread(-2, 0)
        for place in (1 << 63, -(1 << 64)):
            with pytest.raises((OverflowError, ValueError)):
                await file.pread(1, place)
    with pytest.raises(ValueError, match="closed"):
        await file.pread(1, 0)


@pytest.fixture
def limit_size() -> Iterator[Callable[[int], None]]:
    """Limit the size of files, as a full disk would; a write ends at the limit, and then fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_write_that_fails_loses_nothing(
    tmp_path: Path, limit_size: Callable[[int], None]
) -> None:
    path = tmp_path / "file"
    large = b"z" * (1 << 18)
    async with files.open(path, "w+b") as file:
        await file.write(b"x" * 3000)
        await file.flush()
        await file.write(b"y" * 3000)
        limit_size(4096)
        for call in (file.flush, lambda: file.write(large), lambda: file.pwrite(b"ab", 4095)):
            with pytest.raises(OSError) as refused:
                await call()
            assert refused.value.errno == errno.EFBIG
            assert await file.tell() == 6000
        limit_size(1 << 30)
        await file.flush()
        assert path.read_bytes() == b"x" * 3000 + b"y" * 3000
        assert await file.write(large) == len(large)
        assert await file.pwrite(b"ab", offset=5999) == 2
        assert await file.read1() == b""
        await file.seek(5998)
        assert await file.read1(4) == b"yabz"
        assert await file.pwrite(b"cd", 5999) == 2
        assert await file.read1(size=1) == b"z"
        await file.seek(5999)
        assert await file.read(3) == b"cdz"


async def test_a_failed_write_in_append_mode_is_continued_where_it_ended(
    tmp_path: Path, limit_size: Callable[[int], None]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4000)
    lines = [b"%04d\n" % number for number in range(4000)]
    async with files.open(path, "ab", 8192) as file:
        await file.write(bytes(range(200)) * 15)
        limit_size(4096)
        for _ in range(2):
            with pytest.raises(OSError) as refused:
                await file.flush()
            assert refused.value.errno == errno.EFBIG
            assert path.stat().st_size == 4096
        limit_size(12_000)
        with pytest.raises(OSError):
            await file.writelines(lines)
        limit_size(1 << 30)
        await file.flush()
        whole = b"x" * 4000 + bytes(range(200)) * 15 + b"".join(lines)
        assert whole.startswith(path.read_bytes())
        assert await file.tell() == path.stat().st_size > 12_000
        rest = whole[path.stat().st_size :]
        assert await file.write(rest) == len(rest)
    assert path.read_bytes() == whole


async def test_the_arguments_of_a_write_at_an_offset(path: Path) -> None:
    async with files.open(path, "r+b") as file:
        assert await file.pwrite(data=b"ab", offset=1) == 2
        assert await file.pwrite(memoryview(b"xcd")[1:], 3) == 2
        assert await file.pwrite(b"", 2) == 0
        assert await file.pread(5, 0) == b"0abcd"
        untyped: Any = file
        for wrong in (
            lambda: untyped.pwrite(b"a"),
            lambda: untyped.pwrite(b"a", 0, 0),
            lambda: untyped.pwrite(b"a", place=0),
            lambda: untyped.pwrite("a", 0),
            lambda: untyped.pwrite(b"a", "0"),
        ):
            with pytest.raises(TypeError):
                await wrong()
        with pytest.raises(ValueError, match="offset -1 is negative"):
            await file.pwrite(b"a", -1)
        assert await file.pread(5, 0) == b"0abcd"
    with pytest.raises(ValueError, match="closed"):
        await file.pwrite(b"a", 0)
    async with files.open(path, "rb") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.pwrite(b"a", 0)
    async with files.open(path, "ab") as file:
        size = path.stat().st_size
        assert await file.pwrite(b"end", 0) == 3
        assert path.read_bytes()[size:] == b"end"


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_the_arguments_of_a_seek(path: Path, mode: str) -> None:
    async with files.open(path, mode, encoding=None if mode == "rb" else "utf-8") as file:
        assert await file.seek(offset=3) == 3
        assert await file.seek(5, whence=os.SEEK_SET) == 5
        assert await file.seek(whence=os.SEEK_END, offset=0) == path.stat().st_size
        untyped: Any = file
        for wrong in (
            lambda: untyped.seek(),
            lambda: untyped.seek(1, 0, 0),
            lambda: untyped.seek(whence=0),
            lambda: untyped.seek(1, offset=1),
            lambda: untyped.seek(1, place=1),
            lambda: untyped.seek("1"),
        ):
            with pytest.raises(TypeError):
                await wrong()
        assert await file.tell() == path.stat().st_size


async def test_a_read_at_an_offset_needs_no_turn_and_gives_up_none(
    path: Path, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("each await of trio lets other tasks run")
    async with files.open(path, "r+b") as file:
        await file.truncate(1 << 20)
        other = asyncio.ensure_future(file.truncate(10))
        await asyncio.sleep(0)  # it is in flight, and has the turn
        for call, expected in (
            (file.pread(4, 0), b"0000"),
            (file.pread_many(4, [0, 5]), [b"0000", b"0001"]),
        ):
            found: Any = None
            step: Any = call
            for _ in range(2):  # the first may yield to other tasks
                try:
                    step.send(None)
                except StopIteration as result:
                    found = result.value
                    break
            assert found == expected
        waits: Any = file.tell()
        waits.send(None)
        waits.close()
        assert not other.done()
        assert await other == 10


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_a_wrong_argument_is_an_error_when_it_is_awaited(path: Path, mode: str) -> None:
    async with files.open(path, mode) as file:
        for wrong in ("3", 1.5):
            with pytest.raises(TypeError):
                await file.read(wrong)
            with pytest.raises(TypeError):
                await file.readline(wrong)
        with pytest.raises(TypeError, match="unexpected keyword"):
            file.read(count=3)
        with pytest.raises(TypeError, match="at most 1 argument"):
            file.read(1, 2)
        assert await file.read(size=2) in ("00", b"00")
        assert await file.readline(size=None) in ("00\n", b"00\n")


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_tasks_that_share_a_file_are_served_in_the_order_of_their_calls(
    path: Path, mode: str
) -> None:
    parts: dict[int, Any] = {}

    async with files.open(path, mode) as file:

        async def take(number: int) -> None:
            parts[number] = await file.read(5)
            work_for(20e-6)

        async with counted_turns() as turns, anyio.create_task_group() as group:
            for number in range(2000):
                group.start_soon(take, number)
        assert turns() > 1
    order = sorted(parts, key=lambda number: parts[number])
    assert order == list(parts)
    assert len(set(parts.values())) == 2000


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_a_call_that_is_cancelled_while_others_run_takes_nothing(
    path: Path, mode: str
) -> None:
    cancelled = 0
    async with files.open(path, mode) as file:
        for _ in range(200):
            work_for(100e-6)
            position = await file.tell()
            done = False
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:

                    async def read() -> None:
                        nonlocal done
                        await file.read(1)
                        done = True

                    group.start_soon(read)
                    await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert await file.tell() == position + done
            cancelled += not done
    assert cancelled


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_a_program_that_works_between_lines_yields_now_and_then(
    path: Path, mode: str
) -> None:
    async with files.open(path, mode) as file, counted_turns() as turns:
        run = LongestRun(turns)
        count = 0
        async for _ in file:
            run.step()
            work_for(0.001)
            count += 1
            if count == 200:
                break
    assert run.longest < 100


async def test_a_suspended_call_that_is_dropped_leaves_the_file_usable(path: Path) -> None:
    async with files.open(path, "rb") as file:
        dropped = 0
        for _ in range(200):
            work_for(100e-6)
            call: Any = file.read(1)
            try:
                call.send(None)
            except StopIteration:
                continue
            dropped += 1
            call.close()
        assert dropped
        position = await file.tell()
        assert len(await file.read()) == 25_000 - position


async def test_a_file_in_a_cycle_with_its_own_calls_is_collected(path: Path) -> None:
    file: Any = await files.open(path, "rb")
    backend = file._backend
    file._backend = [file, backend, file.read(3)]
    file._backend[2].close()
    await files.unlink(path)
    gone = weakref.ref(file)
    fd = file.fileno()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        file._fd = -1
        del file
        gc.collect()
    assert gone() is None
    backend.abandon(fd)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 8191, 8192, 8193, 300_000])
@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_lines_of_any_length_are_those_of_the_built_in(
    tmp_path: Path, size: int, end: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first\n" + b"x" * size + b"\n" + b"y" * size + end)
    async with files.open(path, "rb") as file:
        assert [line async for line in file] == path.read_bytes().splitlines(keepends=True)
    for newline in (None, "", "\n", "\r", "\r\n"):
        with path.open(newline=newline) as plain:
            lines = list(plain)
        async with files.open(path, newline=newline) as text:
            assert [line async for line in text] == lines
        async with files.open(path, newline=newline) as text:
            assert await text.readlines() == lines


async def test_what_another_writes_behind_the_end_is_read(path: Path) -> None:
    async with files.open(path, "rb") as file:
        assert len(await file.read()) == 25_000
        with path.open("ab") as other:
            other.write(b"more")
        assert await file.read() == b"more"
        with path.open("ab") as other:
            other.write(b"and\nmore")
        assert [line async for line in file] == [b"and\n", b"more"]
        assert await file.read(5) == b""


@pytest.mark.parametrize("where", [131_070, 131_071, 131_072, 262_143])
async def test_a_line_end_between_two_slices_is_one(tmp_path: Path, where: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * where + b"\r\n" + b"y" * where + b"\r\nz\r")
    for newline in (None, "", "\n", "\r", "\r\n"):
        with path.open(newline=newline) as plain:
            first, lines = plain.read(1), plain.readlines()
        async with files.open(path, newline=newline) as file:
            assert await file.read(1) == first
            assert await file.readlines() == lines
            assert await file.readlines() == []


@pytest.mark.parametrize("buffering", [0, 4096])
async def test_a_program_that_works_between_reads_yields_at_each(
    path: Path, buffering: int
) -> None:
    size = 100 if buffering == 0 else 9000
    async with files.open(path, "rb", buffering) as file, counted_turns() as turns:
        run = LongestRun(turns)
        for _ in range(30):
            await file.seek(0)
            await file.read(size)
            run.step()
            work_for(0.003)
    assert run.longest <= 2


async def test_read1_takes_the_sizes_that_the_built_in_one_takes(path: Path) -> None:
    async with files.open(path, "rb") as file:
        whole = await file.read1()
        assert whole == path.read_bytes()[: len(whole)]
        assert whole
        untyped: Any = file
        for wrong in (None, "1", 1.0):
            with pytest.raises(TypeError):
                await untyped.read1(wrong)
            with pytest.raises(TypeError):
                await untyped.read1(size=wrong)


async def test_read1_of_nothing_waits_for_nothing() -> None:
    ends = os.pipe()
    async with files.open(ends[0], "rb") as reader, files.open(ends[1], "wb"):
        with anyio.fail_after(60):
            assert await reader.read1(0) == b""


async def test_writes_of_nothing_take_no_memory(path: Path) -> None:
    async with files.open(path, "r+b") as file:
        await file.read(1)
        for _ in range(100):
            assert await file.write(b"") == 0
        assert not file._unwritten
        assert await file.write(b"z") == 1
        for _ in range(100):
            assert await file.write(b"") == 0
        assert len(file._unwritten) == 1
        assert await file.write(bytearray()) == 0
    assert path.read_bytes()[1:2] == b"z"


async def test_an_offset_that_changes_the_list_of_offsets(path: Path) -> None:
    class Place:
        def __index__(self) -> int:
            offsets.clear()
            return 0

    async with files.open(path, "rb") as file:
        offsets: list[Any] = [Place(), *range(1, 2000)]
        with contextlib.suppress(ValueError, IndexError):
            found = await file.pread_many(1, offsets)
            assert set(found) <= {path.read_bytes()[:1]}
