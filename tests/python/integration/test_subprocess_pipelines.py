"""Pipelines of child processes, with the loop at both ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
import sys

from .conftest import Run

PIPE = asyncio.subprocess.PIPE
DATA = random.Random(5).randbytes(8_000_000)

# Reads whole blocks and writes them inverted, so two such processes restore the data.
FLIP = """
import sys
while block := sys.stdin.buffer.read(65536):
    sys.stdout.buffer.write(bytes(255 - byte for byte in block[:64]) + block[64:])
"""


async def feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 100_000):
        stdin.write(data[start : start + 100_000])
        await stdin.drain()
    stdin.close()
    await stdin.wait_closed()


def test_megabytes_pass_through_three_processes_byte_for_byte(run: Run) -> None:
    async def main() -> None:
        first_read, first_write = os.pipe()
        second_read, second_write = os.pipe()
        try:
            cat = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=first_write)
            flip = await asyncio.create_subprocess_exec(
                sys.executable, "-c", FLIP, stdin=first_read, stdout=second_write
            )
            back = await asyncio.create_subprocess_exec(
                sys.executable, "-c", FLIP, stdin=second_read, stdout=PIPE
            )
        finally:
            for fd in (first_read, first_write, second_read, second_write):
                os.close(fd)
        assert cat.stdin is not None and back.stdout is not None
        feeding = asyncio.create_task(feed(cat.stdin, DATA))
        received = await back.stdout.read()
        await feeding
        assert hashlib.sha256(received).digest() == hashlib.sha256(DATA).digest()
        assert [await process.wait() for process in (cat, flip, back)] == [0, 0, 0]

    run(main())


def test_the_loop_copies_the_bytes_between_the_processes(run: Run) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        processes = [
            await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE) for _ in range(3)
        ]
        first, second, third = processes
        async with asyncio.TaskGroup() as group:
            group.create_task(feed(first.stdin, DATA))  # type: ignore[arg-type]
            group.create_task(pump(first.stdout, second.stdin))  # type: ignore[arg-type]
            group.create_task(pump(second.stdout, third.stdin))  # type: ignore[arg-type]
            result = group.create_task(third.stdout.read())  # type: ignore[union-attr]
        assert result.result() == DATA
        assert [await process.wait() for process in processes] == [0, 0, 0]

    run(main())


def test_a_shell_pipeline_is_fed_and_read(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_shell(
            "sort -r | head -n 3 | tr a-z A-Z", stdin=PIPE, stdout=PIPE
        )
        lines = b"".join(b"line %06d\n" % number for number in range(50_000))
        out, _ = await process.communicate(lines)
        assert out == b"LINE 049999\nLINE 049998\nLINE 049997\n"
        assert process.returncode == 0

    run(main())


def test_a_process_that_stops_reading_ends_the_pipeline(run: Run) -> None:
    """`head` exits early: the writer before it gets SIGPIPE, and nothing hangs."""

    async def main() -> None:
        read, write = os.pipe()
        try:
            yes = await asyncio.create_subprocess_exec("yes", stdout=write)
            head = await asyncio.create_subprocess_exec(
                "head", "-c", "1000000", stdin=read, stdout=PIPE
            )
        finally:
            os.close(read)
            os.close(write)
        out, _ = await head.communicate()
        assert out == b"y\n" * 500_000
        assert await yes.wait() < 0

    run(main())


def test_many_children_are_reaped_with_their_own_results(run: Run) -> None:
    async def child(number: int) -> tuple[bytes, int | None]:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f"cat; exit {number}", stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL
        )
        out, _ = await process.communicate(b"%d" % number)
        return out, process.returncode

    async def main() -> None:
        results = await asyncio.gather(*(child(number) for number in range(30)))
        assert results == [(b"%d" % number, number) for number in range(30)]

    run(main())
