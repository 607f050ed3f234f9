"""Batches of records, and iterations that wait for further ones."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from penstock.files import AppendLog, LogDamaged, LogError, follow_log, read_log
from penstock.files._backend import current_backend
from penstock.files._log.log_format import MAX_BATCH
from tests.python.files.conftest import UseBackend
from tests.python.files.faulty_backend import FaultyBackend, system_error
from tests.python.files.written_log import COMMITS, WrittenLog, encode_commit

pytestmark = pytest.mark.anyio


async def records_of(path: Path) -> list[bytes]:
    return [record async for record in read_log(path)]


async def test_a_batch_has_consecutive_numbers_among_other_appends(tmp_path: Path) -> None:
    batches = [[b"%d-%d" % (n, i) for i in range(n + 1)] for n in range(8)]
    numbers: dict[int, range] = {}
    async with AppendLog(tmp_path / "log") as log:

        async def append(n: int) -> None:
            await log.append(b"single")
            numbers[n] = await log.append_many(iter(batches[n]))

        async with anyio.create_task_group() as group:
            for n in range(8):
                group.start_soon(append, n)
        found = [record async for record in log]
        assert await log.append_many([]) == range(len(found), len(found))
        assert log.count == len(found) == 8 + 36
    for n, batch in enumerate(batches):
        assert [found[number] for number in numbers[n]] == batch
    assert await records_of(tmp_path / "log") == found


async def test_a_cancelled_batch_is_in_the_log_whole_or_not_at_all(tmp_path: Path) -> None:
    async with AppendLog(tmp_path / "log") as log:
        async with anyio.create_task_group() as group:
            for n in range(30):
                with anyio.CancelScope() as scope:
                    if n % 3 == 0:
                        scope.cancel()
                    group.start_soon(log.append_many, [b"x"] * 3)
                    await log.append_many([b"%d" % n] * 5)
        await log.append(b"end")
        found = [record async for record in log]
    assert found.count(b"x") == 90
    for n in range(30):
        assert found.count(b"%d" % n) in ((0, 5) if n % 3 == 0 else (5,))


async def test_a_bad_record_leaves_the_batch_unwritten(tmp_path: Path) -> None:
    async with AppendLog(tmp_path / "log") as log:
        with pytest.raises(TypeError, match="encode it"):
            await log.append_many([b"good", "bad"])  # type: ignore[list-item]
        with pytest.raises(ValueError, match=rf"more than {MAX_BATCH}; append it in parts"):
            await log.append_many([bytes(MAX_BATCH // 2)] * 2)
        assert log.count == 0
        assert await log.append_many([b"x" * 300_000, b"", b"y"]) == range(3)
    assert [len(record) for record in await records_of(tmp_path / "log")] == [300_000, 0, 1]


async def test_a_batch_that_does_not_fit_on_the_disk_is_taken_back(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    class FullDisk(FaultyBackend):
        async def write(self, fd: int, data: bytes, offset: int) -> None:
            await current_backend().write(fd, data[: len(data) // 2], offset)
            raise system_error(errno.ENOSPC)

    async with AppendLog(tmp_path / "log") as log:
        await log.append(b"before")
    use_backend(FullDisk())
    async with AppendLog(tmp_path / "log") as log:
        with pytest.raises(OSError, match="No space left"):
            await log.append_many([b"a" * 100, b"b" * 10])
    assert await records_of(tmp_path / "log") == [b"before"]


async def test_a_log_of_format_1_is_continued_in_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog(COMMITS, 1)
    path.write_bytes(written.data)
    async with AppendLog(path) as log:
        assert await log.append_many([b"new", b"newer"]) == range(6, 8)
        assert [record async for record in log] == [*written.records, b"new", b"newer"]
    expected = encode_commit(written.identity, len(written.data), [b"new", b"newer"])
    assert path.read_bytes() == written.data + expected


async def test_followers_get_each_durable_record_until_the_log_is_closed(tmp_path: Path) -> None:
    seen: list[list[bytes]] = [[], [], []]
    async with AppendLog(tmp_path / "log") as log:
        await log.append(b"0")
        arrived = anyio.Event()

        async def follow(into: list[bytes]) -> None:
            async for record in log.follow():
                assert int(record) < log.count, "it is durable"
                into.append(record)
                if all(len(each) == 200 for each in seen):
                    arrived.set()

        async with anyio.create_task_group() as group:
            for into in seen:
                group.start_soon(follow, into)
            for n in range(1, 100):
                await log.append(b"%d" % n)
            await log.append_many([b"%d" % n for n in range(100, 200)])
            await arrived.wait()
            await log.close()  # ends the followers
    assert seen == [[b"%d" % n for n in range(200)]] * 3
    with pytest.raises(LogError, match="closed"):
        await anext(log.follow())


async def test_a_follower_can_be_cancelled_while_it_waits(tmp_path: Path) -> None:
    async with AppendLog(tmp_path / "log") as log:
        for iteration in (log.follow(), follow_log(log.path)):
            async with aclosing(iteration):
                with anyio.move_on_after(0) as scope:
                    await anext(iteration)
                assert scope.cancelled_caught
        assert await log.append(b"x") == 0
        assert await first(log.follow()) == await first(follow_log(log.path)) == b"x"


async def first(iteration: AsyncGenerator[bytes, None]) -> bytes:
    async with aclosing(iteration):
        return await anext(iteration)


WRITER = """
import asyncio, sys
from penstock.files import AppendLog

async def main():
    async with AppendLog(sys.argv[1]) as log:
        for line in sys.stdin.buffer:
            await log.append_many(line.split())
            print("written", flush=True)

asyncio.run(main())
"""


async def test_the_log_of_another_process_is_followed_across_its_death(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    command = [sys.executable, "-c", WRITER, str(path)]
    seen: list[bytes] = []

    async def writer(lines: list[bytes]) -> None:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            for line in lines:
                process.stdin.write(line + b"\n")
                process.stdin.flush()
                assert await anyio.to_thread.run_sync(process.stdout.readline) == b"written\n"
            process.kill()
        process.wait()

    async def follow() -> None:
        async for record in follow_log(path):
            seen.append(record)

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await writer([b"a b", b"c"])
        # A torn end, which the next writer cuts off and writes over.
        with open(path, "ab") as file:
            file.write(path.read_bytes()[-40:-10])
        await writer([b"d", b"e f g"])
        os.unlink(path)
    assert seen == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


async def test_a_follower_reports_damage_and_a_shorter_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog(COMMITS)
    damaged = bytearray(written.data)
    damaged[written.ends[1]] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(LogDamaged, match="no record begins here"):
        async for _ in follow_log(path):
            pass
    path.write_bytes(written.data)
    with pytest.raises(LogDamaged, match="shorter than it was"):
        async for record in follow_log(path):
            if record == written.records[-1]:
                os.truncate(path, written.ends[2])
