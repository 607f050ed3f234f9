"""AppendLog and kill -9: all acknowledged records are whole and in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.files._log.log_file import open_log_file
from penstock.files._log.log_format import FILE_HEADER_SIZE, RecordParser, parse_file_header
from tests.python.files.appending_process import number_of
from tests.python.files.conftest import child_environment

pytest.importorskip("penstock._core")
pytest.importorskip("trio")

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
    marker = parse_file_header(data)
    assert marker is not None
    parser = RecordParser(marker)
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
