"""What is not in the page cache is waited for without a coroutine method of the Python classes."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from tests.python.files.faulty_backend import FaultyBackend
from tests.python.files.test_cancelling import caught_in_flight, until

pytestmark = pytest.mark.anyio

LINES = [b"%05d %s\n" % (number, b"x" * (number % 61)) for number in range(8000)]
LARGE = 3 << 20  # more than is tried in the page cache

COROUTINE_METHODS = (
    *("_read_in_turn", "_read1_in_turn", "_readline_in_turn", "_next_line_in_turn"),
    *("_peek_in_turn", "_pread_slowly", "_write_in_turn", "_flush_in_turn", "_truncate_in_turn"),
    *("_readinto_in_turn", "_tell_in_turn", "_seek_in_turn"),
)


def forget(path: Path) -> None:
    """Remove a file from the page cache, where the file system allows it."""
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of lines, not in the page cache."""
    file = tmp_path / "file"
    file.write_bytes(b"".join(LINES))
    forget(file)
    return file


@pytest.fixture
def refuse_coroutine_methods(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let every call fail from now on that is left to a coroutine method of a binary file."""

    def refuse() -> None:
        async def refused(self: Any, *arguments: Any) -> Any:
            raise AssertionError(f"a coroutine method was called with {arguments}")

        for name in COROUTINE_METHODS:
            monkeypatch.setattr(files.BinaryFile, name, refused)

    return refuse


async def test_reads_that_wait_need_no_coroutine_method(
    path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    content = path.read_bytes()
    forget(path)
    refuse_coroutine_methods()
    async with files.open(path, "rb") as file:
        assert await file.read(3) == content[:3]
        assert await file.readline() == content[3 : content.index(b"\n") + 1]
        assert (await file.peek())[:5] == LINES[1][:5]
        assert await file.read1(7) == LINES[1][:7]
        await file.seek(0)
        assert [line async for line in file] == LINES
        for call in (file.readline, file.read1, file.read, file.peek):
            assert await call() == b""
        assert await file.read(5) == b""
        await file.seek(4000)
        assert await file.read(100_000) == content[4000:104_000]
        assert await file.read() == content[104_000:]
        assert await file.tell() == len(content)
        assert await file.pread(10, 50_000) == content[50_000:50_010]
        assert await file.pread(10, len(content) - 4) == content[-4:]
        await file.seek(-5, os.SEEK_END)
        assert await file.read(50) == content[-5:]


async def test_lines_of_text_that_wait_need_no_coroutine_method_of_the_binary_file(
    path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    refuse_coroutine_methods()
    async with files.open(path, encoding="utf-8") as file:
        found = [await file.readline()]
        found.append(await file.read(len(LINES[1])))
        found += [line async for line in file]
        assert found == [line.decode() for line in LINES]
        assert await file.readline() == ""
        assert await file.read(5) == ""


async def test_writes_that_wait_need_no_coroutine_method(
    tmp_path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    refuse_coroutine_methods()
    path = tmp_path / "written"
    small, large = b"s" * 5000, b"L" * 20_000
    async with files.open(path, "wb", flags=os.O_DSYNC) as file:
        for data in (small, small, small, large, small):
            assert await file.write(data) == len(data)
        await file.flush()
        assert path.read_bytes() == small * 3 + large + small
        await file.seek(2)
        assert await file.write(b"ab") == 2
        await file.seek(10)
        assert await file.write(b"cd") == 2
        assert await file.truncate() == 12
        assert path.read_bytes() == b"ssabsssssscd"
        assert await file.write(b"e") == 1
        assert await file.truncate(200_000) == 200_000
        assert await file.truncate(4) == 4
        assert await file.tell() == 13
    assert path.read_bytes() == b"ssab"
    async with files.open(path, "w", encoding="utf-8", flags=os.O_DSYNC) as text:
        for _ in range(5):
            assert await text.write("é" * 2500) == 2500
        assert await text.write("z" * 8191) == 8191
    assert path.read_text("utf-8") == "é" * 12_500 + "z" * 8191


async def test_a_buffer_that_is_filled_later_needs_no_coroutine_method(
    path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    content = path.read_bytes()
    forget(path)
    refuse_coroutine_methods()
    small, large = bytearray(100), bytearray(100_000)
    async with files.open(path, "rb") as file:
        assert await file.readinto(small) == 100
        assert small == content[:100]
        assert await file.readinto(memoryview(large)) == 100_000
        assert large == content[100:100_100]
        assert await file.tell() == 100_100
        await file.seek(-50, os.SEEK_END)
        assert await file.readinto(large) == 50
        assert large[:50] == content[-50:]
        assert await file.readinto(large) == 0
        assert await file.readinto(bytearray()) == 0
    forget(path)
    async with files.open(path, "rb", buffering=0) as file:
        assert await file.readinto(small) == 100
        assert small == content[:100]
        assert await file.tell() == 100


async def test_direct_reads_and_writes_need_no_coroutine_method(
    tmp_path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    path = tmp_path / "file"
    content = random.Random(4).randbytes(65_536 + 100)
    path.write_bytes(content)
    try:
        file = await files.open(path, "r+b", flags=os.O_DIRECT)
    except OSError:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT")
    refuse_coroutine_methods()
    buffer = files.aligned_buffer(8192)
    async with file:
        assert await file.read(0) == b""
        assert await file.read(4096) == content[:4096]
        assert await file.readinto(buffer) == 8192
        assert bytes(buffer) == content[4096:12_288]
        assert await file.pread(4096, 8192) == content[8192:12_288]
        assert await file.read() == content[12_288:]
        assert await file.tell() == len(content)
        await file.seek(4096)
        assert await file.read(len(content) // 4096 * 4096) == content[4096:]
        await file.seek(4096)
        buffer[:] = b"w" * 8192
        assert await file.write(buffer) == 8192
        assert await file.tell() == 12_288
        for call, what in (
            (lambda: file.read(100), "size 100"),
            (lambda: file.readinto(buffer[:100]), "size 100"),
            (lambda: file.readinto(buffer[1:4097]), "aligned_buffer"),
            (lambda: file.write(buffer[1:4097]), "aligned_buffer"),
            (lambda: file.write(buffer[:100]), "size 100"),
            (lambda: file.pread(4096, 7), "offset 7"),
        ):
            with pytest.raises(ValueError, match=what):
                await call()
        assert await file.tell() == 12_288
        assert await file.truncate(12_288) == 12_288
        assert await file.read() == b""
    assert path.read_bytes() == content[:4096] + b"w" * 8192


async def test_a_direct_read_that_is_cancelled_in_flight_moves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "large"
    content = random.Random(5).randbytes(LARGE)
    path.write_bytes(content)
    buffer = files.aligned_buffer(LARGE)
    try:
        file = await files.open(path, "rb", flags=os.O_DIRECT)
    except OSError:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT")
    async with file:
        for read in (lambda: file.read(LARGE), file.read, lambda: file.readinto(buffer)):
            for _ in range(200):
                if await caught_in_flight(read):
                    break
                await file.seek(0)
            else:
                pytest.fail("each read had ended before the loop's next turn")
            assert await file.tell() == 0
            assert await file.read(4096) == content[:4096]
            await file.seek(0)


@pytest.mark.parametrize("data", [bytearray(20_000), memoryview(bytes(20_000))])
async def test_other_large_data_need_no_coroutine_method(
    tmp_path: Path, refuse_coroutine_methods: Callable[[], None], data: Any
) -> None:
    refuse_coroutine_methods()
    path = tmp_path / "file"
    async with files.open(path, "wb") as file:
        assert await file.write(b"begin") == 5
        assert await file.write(data) == 20_000
        assert await file.tell() == 20_005
    assert path.read_bytes() == b"begin" + bytes(20_000)


@pytest.mark.parametrize("flags", [0, os.O_DSYNC])
async def test_reads_behind_buffered_data_need_no_coroutine_method(
    tmp_path: Path, refuse_coroutine_methods: Callable[[], None], flags: int
) -> None:
    refuse_coroutine_methods()
    path = tmp_path / "file"
    path.write_bytes(b"0123456789\nend")
    async with files.open(path, "r+b", flags=flags) as opened:
        file: Any = opened
        buffer = bytearray(2)
        expected: list[tuple[Callable[[], Any], Any]] = [
            (lambda: file.read(3), b"234"),
            (lambda: file.read1(3), b"234"),
            (file.readline, b"23456789\n"),
            (file.__anext__, b"23456789\n"),
            (file.peek, b"23456789\nend"),
            (lambda: file.readinto(buffer), 2),
            (file.read, b"23456789\nend"),
        ]
        for number, (call, result) in enumerate(expected):
            await file.seek(0)
            assert await file.write(b"%02d" % number) == 2
            assert await call() == result
            assert path.read_bytes() == b"%02d23456789\nend" % number
        assert buffer == b"23"


async def test_appending_needs_no_coroutine_method(
    tmp_path: Path, refuse_coroutine_methods: Callable[[], None]
) -> None:
    refuse_coroutine_methods()
    path = tmp_path / "file"
    path.write_bytes(b"begin ")
    async with files.open(path, "a+b") as file:
        assert await file.tell() == 6
        for data in (b"s" * 5000, b"s" * 5000, b"L" * 20_000):
            assert await file.write(data) == len(data)
        assert await file.tell() == 30_006
        with path.open("ab") as other:
            other.write(b" between ")
        assert await file.write(b"end") == 3
        assert await file.tell() == 30_018
        assert await file.seek(-12, os.SEEK_CUR) == 30_006
        assert await file.read() == b" between end"
        await file.seek(3)
        assert await file.write(b"!") == 1
        assert await file.seek(0, os.SEEK_END) == 30_019
        assert await file.write(b"?") == 1
        assert await file.seek(-2, os.SEEK_CUR) == 30_018
        assert await file.read(5) == b"!?"
        assert await file.truncate(4) == 4
        assert await file.write(b"x") == 1
        await file.flush()
        assert await file.tell() == 5
    assert path.read_bytes() == b"begix"
    async with files.open(path, "a", encoding="utf-8") as text:
        for _ in range(5):
            assert await text.write("é" * 2500) == 2500
        assert await text.tell() == 25_005
    assert path.read_text("utf-8") == "begix" + "é" * 12_500


async def test_pipes_need_no_coroutine_method(
    refuse_coroutine_methods: Callable[[], None],
) -> None:
    refuse_coroutine_methods()
    ends = os.pipe()
    async with files.open(ends[0], "rb") as reader, files.open(ends[1], "wb") as writer:

        async def write() -> None:
            for part in (b"one\ntw", b"o\nthree", b"fourfi", b"ve", b"six\n"):
                await writer.write(part)
                await writer.flush()
                await anyio.lowlevel.checkpoint()
            await writer.write(b"L" * 100_000)
            await writer.close()

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            assert await reader.readline() == b"one\n"
            assert await anext(reader) == b"two\n"
            assert await reader.read(9) == b"threefour"
            buffer = bytearray(4)
            assert await reader.readinto(buffer) == 4
            assert buffer == b"five"
            assert (await reader.peek())[:1] == b"s"
            assert await reader.read1(1) == b"s"
            assert await reader.readline() == b"ix\n"
            assert await reader.read(50_000) == b"L" * 50_000
            assert await reader.read(60_000) == b"L" * 50_000
        for call in (reader.readline, reader.read1, reader.peek):
            assert await call() == b""
        assert await reader.read(5) == b""
        assert await reader.readinto(buffer) == 0
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


async def test_a_long_line_and_a_growing_file_are_read_whole(path: Path) -> None:
    content = b"a" * 300_000 + b"\nend"
    path.write_bytes(content)
    forget(path)
    async with files.open(path, "rb") as file:
        assert await file.readline() == content[:300_001]
        assert await file.read() == b"end"
        with path.open("ab") as other:
            other.write(b" and more")
        forget(path)
        assert await file.read() == b" and more"
    async with files.open("/proc/self/status", "rb") as status:
        assert (await status.read()).count(b"\n") > 10
    async with files.open("/proc/self/status", "rb") as status:
        lines = [line async for line in status]
        assert lines[0].startswith(b"Name:")


async def test_a_read_that_is_cancelled_in_flight_moves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "large"
    content = random.Random(1).randbytes(LARGE * 2)
    path.write_bytes(content)
    async with files.open(path, "rb") as file:
        for _ in range(200):
            if await caught_in_flight(file.read, LARGE):
                break
            await file.seek(0)
        else:
            pytest.fail("each read had ended before the loop's next turn")
        following: list[bytes] = []

        async def read(size: int) -> None:
            following.append(await file.read(size))

        async with anyio.create_task_group() as group:
            group.start_soon(read, LARGE)
            await anyio.lowlevel.checkpoint()
            group.start_soon(read, 10)
        assert following == [content[:LARGE], content[LARGE : LARGE + 10]]


async def test_a_read_at_an_offset_that_is_cancelled_in_flight_delays_no_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "large"
    content = random.Random(2).randbytes(LARGE)
    path.write_bytes(content)
    async with files.open(path, "rb") as file:
        for _ in range(20):
            await caught_in_flight(file.pread, LARGE, 0)
            assert await file.pread(10, 100) == content[100:110]
        assert await file.read(5) == content[:5]


async def test_a_read_that_is_dropped_in_flight_gives_up_the_turn(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("trio's traps cannot be sent by hand")
    path = tmp_path / "large"
    content = random.Random(3).randbytes(LARGE)
    path.write_bytes(content)
    async with files.open(path, "rb") as file:
        for end in ("dropped", "closed", "thrown"):
            call: Any = file.read(LARGE)
            for _ in range(2):  # the first may yield to other tasks
                call.send(None)
            if end == "closed":
                call.close()
            elif end == "thrown":
                with pytest.raises(KeyError):
                    call.throw(KeyError(end))
            del call
            gc.collect()
            assert await file.tell() == 0
            assert await file.read(3) == content[:3]
            await file.seek(0)


async def test_a_file_that_a_cancelled_read_uses_is_closed_after_it(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(LARGE))
    for _ in range(20):
        file = await files.open(path, "rb")
        await caught_in_flight(file.read, LARGE)
        fd = file.fileno()
        await file.close()
        with pytest.raises(ValueError, match="closed"):
            await file.read(1)
        with contextlib.suppress(OSError):
            assert os.readlink(f"/proc/self/fd/{fd}") != str(path)


async def test_a_write_that_fails_while_it_waits_keeps_what_was_buffered(tmp_path: Path) -> None:
    async with files.open("/dev/full", "r+b", buffering=100) as full:
        await full.write(b"x" * 60)
        with pytest.raises(OSError, match="No space"):
            await full.write(b"y" * 60)
        with pytest.raises(OSError, match="No space"):
            await full.flush()
        full._unwritten_size = 0


@pytest.mark.parametrize("mode", ["r+b", "a+b"])
async def test_calls_that_wait_do_what_the_built_in_ones_do(tmp_path: Path, mode: str) -> None:
    chance = random.Random(33)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    content = b"".join(LINES[:1500])
    for path in (ours, theirs):
        path.write_bytes(content)
    forget(ours)
    # The built-in's buffer has wrong positions in append mode, see test_binary_files.
    plain_buffering = -1 if mode == "r+b" else 0
    async with files.open(ours, mode, flags=os.O_DSYNC) as file:
        with open(theirs, mode, plain_buffering) as plain:
            for _ in range(120):
                size = chance.choice((0, 1, 9, 5000, 8192, 30_000))
                match chance.randrange(10):
                    case 0:
                        assert await file.read(size) == plain.read(size)
                    case 1:
                        assert await file.readline() == plain.readline()
                    case 2:
                        place = chance.randrange(len(content))
                        assert await file.seek(place) == plain.seek(place)
                    case 3:
                        data = chance.randbytes(size)
                        assert await file.write(data) == plain.write(data)
                    case 4:
                        await file.flush()
                        plain.flush()
                        assert ours.read_bytes() == theirs.read_bytes()
                    case 5:
                        length = chance.choice((None, chance.randrange(len(content))))
                        assert await file.truncate(length) == plain.truncate(length)
                    case 6:
                        assert await file.tell() == plain.tell()
                        forget(ours)
                    case 7:
                        buffer, expected = bytearray(size), bytearray(size)
                        assert await file.readinto(buffer) == plain.readinto(expected)
                        assert buffer == expected
                    case 8:
                        target = chance.choice(((0, 1), (9, 1), (0, 2), (9, 2)))
                        assert await file.seek(*target) == plain.seek(*target)
                    case _:
                        assert await file.read() == plain.read()
    assert ours.read_bytes() == theirs.read_bytes()


async def test_what_was_read_ahead_during_a_write_at_an_offset_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 20_000)
    read, written = anyio.Event(), anyio.Event()

    async def before(_: int, name: str) -> None:
        if name == "write":
            await read.wait()

    async def afterwards(_: int, name: str) -> None:
        if name == "read" and not read.is_set():
            read.set()
            await written.wait()

    backend = FaultyBackend(fault=before, afterwards=afterwards)
    async with files.open(path, "r+b") as file:
        with monkeypatch.context() as patched:
            patched.setattr(file, "_backend", backend)

            async def write() -> None:
                await file.pwrite(b"b" * 10, 100)
                written.set()

            async with anyio.create_task_group() as group:
                group.start_soon(write)
                await until(lambda: backend.calls == ["write"])
                assert await file.read(1) == b"a"
        await file.seek(100)
        assert await file.read(10) == b"b" * 10


async def test_the_awaitable_of_a_line_is_awaited_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(9)))
    for mode in ("rb", "r"):
        async with files.open(path, mode) as opened:
            file: Any = opened
            assert int(await anext(file)) == 0
            first, second = file.__anext__(), file.__anext__()
            # The call takes a line, or its await if the task has run for long enough to yield.
            assert {int(await second), int(await first)} == {1, 2}
            async for line in file:
                assert int(line) == 3
                break
            for awaited in (first, second):
                with pytest.raises(RuntimeError, match="already awaited"):
                    await awaited
            dropped = file.__anext__()  # has taken a line, unless it was to yield
            rest = [int(line) async for line in file]
            assert rest[-4:] == [5, 6, 7, 8]
            with contextlib.suppress(StopAsyncIteration):
                rest.insert(0, int(await dropped))
            assert rest == [4, 5, 6, 7, 8]


async def test_two_loops_over_one_file_get_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(LINES))
    found: list[bytes] = []

    async with files.open(path, "rb") as file:

        async def take() -> None:
            async for line in file:
                found.append(line)
                if len(found) % 50 == 0:
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(take)
    assert sorted(found) == LINES
