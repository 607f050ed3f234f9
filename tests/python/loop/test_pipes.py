"""connect_read_pipe and connect_write_pipe."""

from __future__ import annotations

import asyncio
import os
import sys
import tty
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .peers import Recorder, until


def test_a_read_pipe_reads_to_its_end(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        read, write = os.pipe()
        reading = os.fdopen(read, "rb", 0)
        transport, protocol = await loop.connect_read_pipe(Recorder, reading)
        assert isinstance(transport, asyncio.ReadTransport)
        assert transport.get_extra_info("pipe") is reading
        os.write(write, b"hello")
        assert await protocol.received(5) == b"hello"
        os.close(write)
        await protocol.closed.wait()
        assert protocol.calls == ["made", "data", "eof", "lost"]
        assert protocol.lost_with == [None]
        assert reading.closed

    run(main())


def test_a_read_pipe_can_be_paused(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        read, write = os.pipe()
        transport, protocol = await loop.connect_read_pipe(Recorder, os.fdopen(read, "rb", 0))
        transport.pause_reading()
        os.write(write, b"held")
        for _ in range(3):
            await asyncio.sleep(0.001)
        assert protocol.data == b""
        transport.resume_reading()
        await protocol.received(4)
        transport.close()
        await protocol.closed.wait()
        os.close(write)

    run(main())


def test_a_write_pipe_writes_more_than_the_pipes_capacity(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    data = bytes(range(256)) * 4096

    def drain(fd: int) -> bytes:
        received = b""
        while chunk := os.read(fd, 1 << 20):
            received += chunk
        return received

    async def main() -> None:
        read, write = os.pipe()
        transport, protocol = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", 0))
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"head")
        transport.write(data)
        assert transport.get_write_buffer_size() > 0
        assert protocol.paused.is_set()
        assert transport.can_write_eof()
        transport.write_eof()
        received = await asyncio.to_thread(drain, read)
        assert received == b"head" + data
        await protocol.closed.wait()
        assert protocol.lost_with == [None]
        os.close(read)

    run(main())


def test_a_write_pipe_ends_when_its_reader_closes(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        read, write = os.pipe()
        transport, protocol = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", 0))
        os.close(read)
        await protocol.closed.wait()
        assert transport.is_closing()
        assert len(protocol.lost_with) == 1

    run(main())


def test_abort_drops_buffered_data(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        read, write = os.pipe()
        transport, protocol = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", 0))
        transport.write(b"x" * 1_000_000)
        transport.abort()
        await protocol.closed.wait()
        assert transport.get_write_buffer_size() == 0
        os.close(read)

    run(main())


def test_a_terminal_works_as_a_pipe(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        main_side, other_side = os.openpty()
        tty.setraw(other_side)
        reading, reader = await loop.connect_read_pipe(Recorder, os.fdopen(main_side, "rb", 0))
        writing, writer = await loop.connect_write_pipe(Recorder, os.fdopen(other_side, "wb", 0))
        writing.write(b"line\n")
        assert await reader.received(5) == b"line\n"
        reading.close()
        writing.abort()
        await reader.closed.wait()
        await writer.closed.wait()

    run(main())


@pytest.mark.parametrize("watched", [False, True])
def test_all_that_a_child_has_written_to_its_terminal_is_read_before_its_end(
    loop: asyncio.AbstractEventLoop, run: Run, watched: bool
) -> None:
    # libuv 4997: the hang-up comes with data, of which a read returns a part.
    data = bytes(range(1, 201)) * 1000

    async def main() -> None:
        controlling, terminal = os.openpty()
        tty.setraw(terminal)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; sys.stdout.buffer.write(bytes(range(1, 201)) * 1000)",
            stdout=terminal,
        )
        os.close(terminal)
        received = bytearray()
        if not watched:
            reading = os.fdopen(controlling, "rb", 0)
            _, protocol = await loop.connect_read_pipe(Recorder, reading)
            await protocol.closed.wait()
            received += protocol.data
        else:
            ended = asyncio.Event()

            def read() -> None:
                try:
                    received.extend(os.read(controlling, 1000))
                except OSError:  # EIO: the last descriptor of the terminal is closed
                    loop.remove_reader(controlling)
                    ended.set()

            loop.add_reader(controlling, read)
            await ended.wait()
            os.close(controlling)
        assert await process.wait() == 0
        assert bytes(received) == data

    run(main())


@pytest.mark.parametrize("method", ["connect_read_pipe", "connect_write_pipe"])
def test_a_regular_file_is_refused(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path, method: str
) -> None:
    with (
        open(tmp_path / "file", "w+b") as file,
        pytest.raises(ValueError, match=r"for pipes"),
    ):
        run(getattr(loop, method)(Recorder, file))


def test_a_fifo_connects_two_ends(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")

    async def main() -> None:
        both: list[Any] = await asyncio.gather(
            asyncio.to_thread(open, tmp_path / "fifo", "rb", 0),
            asyncio.to_thread(open, tmp_path / "fifo", "wb", 0),
        )
        reading, reader = await loop.connect_read_pipe(Recorder, both[0])
        writing, writer = await loop.connect_write_pipe(Recorder, both[1])
        writing.write(b"through")
        await reader.received(7)
        writing.close()
        await reader.closed.wait()
        await writer.closed.wait()
        await until(reading.is_closing)

    run(main())


@pytest.mark.parametrize("where", ["connection_made", "data_received", "eof_received"])
def test_a_read_pipe_may_be_closed_in_every_callback(
    loop: asyncio.AbstractEventLoop, run: Run, where: str
) -> None:
    async def main() -> None:
        read, write = os.pipe()
        _, protocol = await loop.connect_read_pipe(
            lambda: ending(where, "close"), os.fdopen(read, "rb", 0)
        )
        if where != "connection_made":  # closed before
            os.write(write, b"data")
        if where == "eof_received":
            os.close(write)
        await protocol.closed.wait()
        assert protocol.calls.count("lost") == 1
        if where != "eof_received":
            os.close(write)

    run(main())


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("where", ["connection_made", "pause_writing"])
def test_a_write_pipe_may_be_ended_in_every_callback(
    loop: asyncio.AbstractEventLoop, run: Run, how: str, where: str
) -> None:
    async def main() -> None:
        read, write = os.pipe()
        transport, protocol = await loop.connect_write_pipe(
            lambda: ending(where, how), os.fdopen(write, "wb", 0)
        )
        if where != "connection_made":
            transport.write(bytes(1 << 20))
        with os.fdopen(read, "rb") as reading:
            drained = asyncio.to_thread(reading.read)
            await asyncio.gather(drained, protocol.closed.wait())
        assert protocol.calls.count("lost") == 1

    run(main())


def ending(where: str, how: str) -> Recorder:
    """Return a protocol that ends its transport in one of its callbacks."""

    def end(self: Recorder, *arguments: Any) -> Any:
        result = getattr(Recorder, where)(self, *arguments)
        getattr(self.transport, how)()
        return result

    made: Recorder = type("Ending", (Recorder,), {where: end})()
    return made
