"""AppendLog and kill -9: all acknowledged records are whole and in order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.files import SegmentedLog
from penstock.files._log.log_file import open_log_file
from penstock.files._log.log_format import FILE_HEADER_SIZE, RecordParser, parse_file_header
from tests.python.files.appending_process import number_of
from tests.python.files.conftest import child_environment

pytest.importorskip("penstock._core")
pytest.importorskip("trio")

pytestmark = pytest.mark.slow

Victims = subprocess.Popen[str]


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """The process that forks appending children; see appending_process.py."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.python.files.appending_process"],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def append_until_killed(victims: Victims, *task: object, acknowledged: int) -> list[int]:
    """Let a child append, kill it after this many acknowledged appends, and return its numbers."""
    assert victims.stdin is not None and victims.stdout is not None
    print(*task, file=victims.stdin, flush=True)
    lines = []
    pid = 0
    while (line := victims.stdout.readline()) != "ended\n":
        assert line, "the process has ended"
        word, *rest = line.split()
        if word == "pid":
            pid = int(rest[0])
        else:
            lines.append(int(word))
        if pid and len(lines) >= acknowledged:
            os.kill(pid, signal.SIGKILL)
            pid = 0
    return lines


def numbers_in(path: Path) -> list[int]:
    """Return the numbers of all records, read by the parser alone."""
    data = path.read_bytes()
    identity = parse_file_header(data)
    assert identity is not None
    parser = RecordParser(identity)
    numbers = [number_of(record) for record in parser.feed(data[FILE_HEADER_SIZE:])]
    assert not parser.damage and not parser.buffered
    return numbers


@pytest.mark.parametrize("loop", ["asyncio", "penstock", "trio"])
@pytest.mark.parametrize(
    ("length", "kills"), [(100, 25), (300_000, 15)], ids=["short records", "long records"]
)
def test_every_acknowledged_append_survives_kill_9(
    victims: Victims, tmp_path: Path, loop: str, length: int, kills: int
) -> None:
    path = tmp_path / "log"
    chance = random.Random(f"{loop} {length}")
    first = 0
    for _ in range(kills):
        wanted = chance.choice((0, 1, chance.randrange(60)))
        acknowledged = append_until_killed(victims, loop, path, first, length, acknowledged=wanted)
        if not path.exists():
            assert not acknowledged
            continue
        opened = open_log_file(str(path), 0o666)
        os.close(opened.fd)
        numbers = numbers_in(path)
        # No gap, no repetition and no wrong order, across all writers.
        assert numbers == list(range(len(numbers)))
        assert len(numbers) == opened.recovered.records
        assert len(numbers) > max(acknowledged, default=-1)
        first = len(numbers)
    assert first > 0


ROTATING = """
import asyncio, os, sys
from penstock.files import SegmentedLog

left = int(sys.argv[2])

def counted(function):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*arguments, **options)
    return call

for name in ("open", "pwrite", "fsync", "ftruncate", "unlink", "listdir", "close"):
    setattr(os, name, counted(getattr(os, name)))

async def main():
    log = SegmentedLog(sys.argv[1], segment_size=24 + 2 * 38, keep_size=3 * 100)
    async with log:
        for _ in range(7):
            print(await log.append(b"%010d" % log.count), flush=True)

asyncio.run(main())
"""


async def read_segments(folder: Path) -> tuple[int, list[int]]:
    async with SegmentedLog(folder, segment_size=100, keep_size=300) as log:
        return log.first, [int(record) async for record in log]


def test_a_kill_at_any_step_of_a_rotation_loses_and_repeats_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    acknowledged = -1
    for step in range(1000):
        done = subprocess.run(
            [sys.executable, "-c", ROTATING, str(folder), str(step)],
            stdout=subprocess.PIPE,
            check=False,
        )
        numbers = [int(line) for line in done.stdout.split()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        acknowledged = max([acknowledged, *numbers])
        if folder.exists():
            first, found = asyncio.run(read_segments(folder))
            assert found == list(range(first, first + len(found))), step
            assert first + len(found) > acknowledged
        if done.returncode == 0:
            break
    assert done.returncode == 0 and step > 20
