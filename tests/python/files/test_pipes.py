"""Pipes: what comes in parts is read whole, and no cancelled call loses or repeats a byte."""

from __future__ import annotations

import fcntl
import io
import os
import random
import struct
import termios
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from tests.python.files.test_cancelling import in_flight, until

pytestmark = pytest.mark.anyio

CONTENT = b"".join(b"%d:%s\n" % (number, b"x" * (number * 37 % 301)) for number in range(250))


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The descriptors of a pipe, which the test leaves open."""
    pipe = os.pipe()
    yield pipe
    for end in pipe:
        os.close(end)


def held(fd: int) -> int:
    """How many bytes are in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    return int(count)


async def drained(fd: int, size: int) -> bytes:
    """Read so many bytes from a pipe, while other tasks fill it."""
    os.set_blocking(fd, False)
    found = b""
    while len(found) < size:
        try:
            found += os.read(fd, size - len(found))
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()
    return found


async def interrupted(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a call returns, or None if it was cancelled in flight."""
    result = None

    async def body() -> None:
        nonlocal result
        result = await call()

    async with anyio.create_task_group() as group:
        group.start_soon(body)
        await until(lambda: result is not None or in_flight())
        group.cancel_scope.cancel()
    return result


async def feed(fd: int, content: bytes, chance: random.Random) -> None:
    """Write the content in pieces of any size, and close the pipe."""
    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)  # a write that waited would block the loop
    begin = 0
    while begin < len(content):
        size = chance.choice((1, 5, 100, 4000))
        begin += os.write(fd, content[begin : begin + size])
        for _ in range(chance.choice((0, 1, 5))):
            await anyio.lowlevel.checkpoint()
    os.close(fd)


class RandomReads:
    """Calls of a file over a pipe, each compared with the content from the position on."""

    def __init__(self, file: Any, chance: random.Random, buffering: int) -> None:
        self.file = file
        self.chance = chance
        self.unbuffered = buffering == 0
        self.position = 0

    async def run(self) -> None:
        kinds = (self.read, self.read1, self.readinto, self.line, self.next_line, self.peek)
        while self.position < len(CONTENT):
            size = self.chance.choice((0, 1, 7, 300, 5000, 70_000))
            await self.chance.choice(kinds)(size)
        assert await self.file.read(1) == b""
        assert await self.file.readline() == b""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.chance.random() < 0.4:
            return await interrupted(lambda: function(*arguments))
        return await function(*arguments)

    def take(self, data: bytes | None, size: int, *, some: bool = False) -> None:
        """Compare the result of a call that was asked for ``size`` bytes."""
        if data is None:
            return
        expected = CONTENT[self.position : self.position + size]
        if some and expected:
            assert data
            expected = expected[: len(data)]
        assert data == expected
        self.position += len(data)

    async def read(self, size: int) -> None:
        self.take(await self.call(self.file.read, size), size, some=self.unbuffered)

    async def read1(self, size: int) -> None:
        self.take(await self.call(self.file.read1, size), size, some=True)

    async def readinto(self, size: int) -> None:
        buffer = bytearray(size)
        count = await self.call(self.file.readinto, buffer)
        if count is not None:
            self.take(bytes(buffer[:count]), size, some=self.unbuffered)

    async def line(self, _: int) -> None:
        end = CONTENT.index(b"\n", self.position) + 1
        self.take(await self.call(self.file.readline), end - self.position)

    async def next_line(self, _: int) -> None:
        end = CONTENT.index(b"\n", self.position) + 1
        self.take(await self.call(self.file.__anext__), end - self.position)

    async def peek(self, _: int) -> None:
        data = await self.call(self.file.peek)
        if data is not None:
            assert data
            assert CONTENT.startswith(data, self.position)


@pytest.mark.parametrize("buffering", [-1, 16, 0])
async def test_random_reads_of_a_pipe_return_what_was_written(buffering: int) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        reader, writer = os.pipe()
        async with (
            files.open(reader, "rb", buffering) as file,
            anyio.create_task_group() as group,
        ):
            group.start_soon(feed, writer, CONTENT, chance)
            await RandomReads(file, chance, buffering).run()


@pytest.mark.parametrize("newline", [None, "", "\n", "\r\n"])
async def test_random_reads_of_text_from_a_pipe_are_those_of_a_file(
    tmp_path: Path, newline: str | None
) -> None:
    path = tmp_path / "text"
    for seed in range(2):
        chance = random.Random(seed)
        pieces = ("a", "bc", "\n", "\r", "\r\n", "é", "あ", "x" * 30)
        content = "".join(chance.choices(pieces, k=1200)).encode()
        path.write_bytes(content)
        reader, writer = os.pipe()
        async with files.open(reader, encoding="utf-8", newline=newline) as opened:
            file: Any = opened
            async with anyio.create_task_group() as group:
                group.start_soon(feed, writer, content, chance)
                with path.open(encoding="utf-8", newline=newline) as plain:
                    found: str | None = None
                    while found != "":
                        size = chance.choice((1, 7, 300))
                        name = chance.choice(("readline", "read"))
                        arguments = (size,) if name == "read" else ()
                        call = partial(getattr(file, name), *arguments)
                        found = await (interrupted(call) if chance.random() < 0.3 else call())
                        if found is not None:
                            assert found == getattr(plain, name)(*arguments)
            with pytest.raises(StopAsyncIteration):
                await anext(file)


async def test_the_end_of_a_terminal_is_asked_for_once() -> None:
    main, terminal = os.openpty()
    with anyio.fail_after(60):
        async with files.open(terminal, encoding="utf-8") as file:
            os.write(main, b"one\ntwo\n")
            assert await file.readline() == "one\n"
            assert await file.readline() == "two\n"
            for _ in range(2):
                os.write(main, b"\x04")  # as Ctrl-D
                assert await file.readline() == ""
            os.write(main, b"three\n")
            assert await anext(file) == "three\n"
    os.close(main)


async def test_a_cancelled_readinto_loses_nothing(ends: tuple[int, int]) -> None:
    async with files.open(ends[0], "rb", closefd=False) as file:
        for size in (10, 100_000):
            buffer = bytearray(size)

            async def fill(target: bytearray = buffer) -> None:
                await file.readinto(target)

            async with anyio.create_task_group() as group:
                group.start_soon(fill)
                await until(in_flight)
                os.write(ends[1], b"half")
                await until(lambda: not held(ends[0]))
                group.cancel_scope.cancel()
            os.write(ends[1], b" line\n")
            assert await file.readline() == b"half line\n"


async def test_a_buffer_may_shrink_while_a_pipe_fills_it(ends: tuple[int, int]) -> None:
    buffer = bytearray(10)
    async with files.open(ends[0], "rb", closefd=False) as file:

        async def fill() -> None:
            assert await file.readinto(buffer) == 3

        async with anyio.create_task_group() as group:
            group.start_soon(fill)
            await until(in_flight)
            del buffer[3:]
            os.write(ends[1], b"abcdef")
        assert buffer == b"abc"
        assert await file.read(3) == b"def"


async def test_an_unbuffered_pipe_returns_what_was_left_over(ends: tuple[int, int]) -> None:
    buffer = bytearray(10)
    async with files.open(ends[0], "rb", buffering=0, closefd=False) as file:
        with anyio.fail_after(60):
            for call in (lambda: file.read(10), lambda: file.readinto(buffer), file.read1):
                os.write(ends[1], b"a")
                assert await file.peek() == b"a"
                assert await call() in (b"a", 1)
            os.write(ends[1], b"bc")
            assert await file.peek() == b"b"
            assert await file.read(100_000) == b"b"
            assert await file.read(100_000) == b"c"


async def test_a_long_content_is_read_whole() -> None:
    content = random.Random(3).randbytes(3_000_000)
    reader, writer = os.pipe()
    async with files.open(reader, "rb") as file:

        async def write() -> None:
            async with files.open(writer, "wb") as target:
                await target.write(content)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            buffer = bytearray(200_000)
            assert await file.read(900_000) == content[:900_000]
            assert await file.readinto(buffer) == 200_000
            assert buffer == content[900_000:1_100_000]
            assert await file.read() == content[1_100_000:]
            assert await file.read() == b""


@pytest.mark.parametrize("buffering", [-1, 16, 0])
async def test_a_long_line_comes_whole_also_after_a_cancelled_call(
    ends: tuple[int, int], buffering: int
) -> None:
    line = b"x" * 150_000
    async with files.open(ends[0], "rb", buffering, closefd=False) as file:

        async def write(data: bytes) -> None:
            async with files.open(ends[1], "wb", closefd=False) as target:
                await target.write(data)

        async with anyio.create_task_group() as group:
            group.start_soon(file.readline)
            await write(line)
            await until(lambda: not held(ends[0]))
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(write, line + b"\n" + line + b"\nend\n")
            assert await anext(file) == 2 * line + b"\n"
            assert await file.readline(5) == line[:5]
            assert await file.readline(len(line) - 6) == line[6:]
            assert await file.readline(100) == b"x\n"
            assert await file.readline(0) == b""
            assert await file.readline(4) == b"end\n"


async def test_what_a_full_pipe_has_taken_of_a_failed_detach_is_not_written_again(
    ends: tuple[int, int],
) -> None:
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(ends[1], False)
    data = random.Random(5).randbytes(6000)
    file = await files.open(ends[1], "wb", buffering=20_000, closefd=False)
    await file.write(data)
    with pytest.raises(BlockingIOError):
        file.detach()
    found = os.read(ends[0], 4096)
    file.detach().close()
    assert found + os.read(ends[0], 4096) == data
    assert not held(ends[0])


async def test_what_a_cancelled_flush_has_written_is_not_written_again(
    ends: tuple[int, int],
) -> None:
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    data = random.Random(4).randbytes(12_000)
    async with files.open(ends[1], "wb", buffering=20_000, closefd=False) as file:
        await file.write(data)
        for _ in range(2):
            async with anyio.create_task_group() as group:
                group.start_soon(_flush, file)
                await until(lambda: held(ends[0]) > 0)
                group.cancel_scope.cancel()
            assert held(ends[0]) < len(data)
        async with anyio.create_task_group() as group:
            group.start_soon(_flush, file)
            assert await drained(ends[0], len(data)) == data
        assert not held(ends[0])


async def _flush(file: Any) -> None:
    await file.flush()


async def test_calls_at_an_offset_are_refused_and_take_nothing(ends: tuple[int, int]) -> None:
    os.write(ends[1], b"data")
    async with (
        files.open(ends[0], "rb", closefd=False) as reader,
        files.open(ends[1], "wb", closefd=False) as writer,
    ):
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: reader.pread(2, 0),
            lambda: reader.pread_many(2, [0]),
            lambda: reader.pread_into(bytearray(2), 0),
            lambda: reader.preadv([bytearray(2)], 0),
            lambda: writer.pwrite(b"ab", 0),
            lambda: writer.pwritev([b"ab"], 0),
        ]
        for call in calls:
            with pytest.raises(io.UnsupportedOperation, match="no positions"):
                await call()
        assert await reader.read(4) == b"data"
        assert not held(ends[0])


async def test_a_pipe_of_packets_keeps_them_apart() -> None:
    ends = os.pipe2(os.O_DIRECT)
    async with files.open(ends[0], "rb", 0) as reader, files.open(ends[1], "wb") as writer:
        for packet in (b"one", b"three", b"x" * 4096):
            assert await writer.write(packet) == len(packet)
        for packet in (b"one", b"three"):
            assert await reader.read(100) == packet
        buffer = bytearray(5000)
        assert await reader.readinto(buffer) == 4096
        assert buffer[:4096] == b"x" * 4096
