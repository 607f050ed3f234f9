"""AppendLog and power cuts: the possible disk contents during and after a commit or failed commit.

A power cut keeps any subset of the sectors written, and of the truncations made, since the last
sync. kill -9, which keeps all of them, is tested in test_log_crashes.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.files import AppendLog, LogFailed
from penstock.files._backend import current_backend
from penstock.files._log.log_file import open_log_file
from penstock.files._log.log_format import FILE_HEADER_SIZE, RecordParser
from tests.python.files.conftest import UseBackend
from tests.python.files.faulty_backend import FaultyBackend, system_error

pytestmark = pytest.mark.slow

SECTOR = 512
LOOPS = ["asyncio", "penstock"]

Kept = Callable[[], bool]
"""Returns whether the next sector, or truncation, has reached the disk."""


class Disk(FaultyBackend):
    """A log's file, with its possible contents after a power cut.

    Attributes:
        room: how many bytes of the next write fit before the disk is full; None: all of them.
        sync_fails: whether each sync fails.
        at_every_moment: called before and after each call that changes the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.room: int | None = None
        self.sync_fails = False
        self.at_every_moment: Callable[[], None] = lambda: None
        self._durable = b""
        self._unsynced: list[tuple[int, bytes | None]] = []  # None: truncated there

    def opened(self) -> None:
        """Record every change from now on. The opening has synced the log."""
        self._durable = self.path.read_bytes()

    def left_by_a_power_cut(self, kept: Kept) -> bytes:
        """Return a possible content of the file after a power cut."""
        content = bytearray(self._durable)
        for offset, data in self._unsynced:
            if data is None:
                if kept():
                    content = content[:offset].ljust(offset, b"\0")
                continue
            position = offset
            while position < offset + len(data):
                end = min((position // SECTOR + 1) * SECTOR, offset + len(data))
                if kept():
                    content = content.ljust(end, b"\0")
                    content[position:end] = data[position - offset : end - offset]
                position = end
        return bytes(content)

    async def write(self, fd: int, data: bytes, offset: int) -> None:
        self.at_every_moment()
        taken = data if self.room is None else data[: self.room]
        await current_backend().write(fd, taken, offset)
        self._unsynced.append((offset, taken))
        self.at_every_moment()
        if len(taken) < len(data):
            raise system_error(errno.ENOSPC)

    async def truncate(self, fd: int, length: int) -> None:
        await current_backend().truncate(fd, length)
        self._unsynced.append((length, None))
        self.at_every_moment()

    async def fdatasync(self, fd: int) -> None:
        self.at_every_moment()
        if self.sync_fails:
            raise system_error(errno.EIO)
        await current_backend().fdatasync(fd)
        self._durable = self.path.read_bytes()
        self._unsynced.clear()
        self.at_every_moment()


def everything() -> bool:
    """Let all writes reach the disk. For truncations see :func:`written_but_not_cut`."""
    return True


def written_but_not_cut(disk: Disk) -> bytes:
    """Return the file after early writeback of the data and a power cut before the truncation."""
    disk._unsynced = [change for change in disk._unsynced if change[1] is not None]
    return disk.left_by_a_power_cut(everything)


def recovered_from(content: bytes, folder: Path) -> list[bytes]:
    """Return the records that an opening finds in a file with this content."""
    path = folder / "found"
    path.write_bytes(content)
    opened = open_log_file(str(path), 0o666)
    try:
        data = os.pread(opened.fd, path.stat().st_size, FILE_HEADER_SIZE)
        records = list(RecordParser(opened.identity).feed(data))
        assert len(records) == opened.recovered.records
        return records
    finally:
        os.close(opened.fd)


async def append_together(log: AppendLog, records: list[bytes]) -> list[BaseException]:
    """Append the records in one commit, and return the exceptions."""
    results = await asyncio.gather(*map(log.append, records), return_exceptions=True)
    return [result for result in results if isinstance(result, BaseException)]


@pytest.mark.parametrize("loop", LOOPS)
def test_records_that_a_full_disk_refused_do_not_reappear_after_a_power_cut(
    loop: str, run_on: Callable[..., Any], use_backend: UseBackend, tmp_path: Path
) -> None:
    disk = Disk(tmp_path / "log")
    use_backend(disk)

    async def main() -> None:
        async with AppendLog(disk.path) as log:
            disk.opened()
            await log.append(b"durable")
            disk.room = 300  # fits the first record and a part of the second
            errors = await append_together(log, [b"a" * 200, b"b" * 200])
            assert [getattr(error, "errno", None) for error in errors] == [errno.ENOSPC] * 2
            assert recovered_from(written_but_not_cut(disk), tmp_path) == [b"durable"]

    run_on(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_truncation_that_the_disk_does_not_confirm_ends_the_log(
    loop: str, run_on: Callable[..., Any], use_backend: UseBackend, tmp_path: Path
) -> None:
    """The record may reappear, so the exception must not report that it is absent."""
    disk = Disk(tmp_path / "log")
    use_backend(disk)

    async def main() -> None:
        log = await AppendLog(disk.path)
        disk.room, disk.sync_fails = 10, True
        (error,) = await append_together(log, [b"x"])
        assert isinstance(error, LogFailed)
        assert "could not be cut off" in str(error)
        assert isinstance(error.__cause__, OSError)
        assert error.__cause__.errno == errno.ENOSPC
        assert any("Input/output error" in note for note in error.__cause__.__notes__)
        disk.room, disk.sync_fails = None, False
        (error,) = await append_together(log, [b"y"])
        assert isinstance(error, LogFailed)
        await log.close()
        assert recovered_from(disk.path.read_bytes(), tmp_path) == []

    run_on(loop, main)


SIZES = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2000)), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(SIZES, st.one_of(st.none(), st.integers(0, 3000))), min_size=1, max_size=5
)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_power_cut_at_any_moment_leaves_all_acknowledged_and_no_refused_records(
    loop: str, run_on: Callable[..., Any], use_backend: UseBackend
) -> None:
    async def follow(
        steps: list[tuple[list[int], int | None]], chance: random.Random, folder: Path
    ) -> None:
        acknowledged: list[bytes] = []
        in_flight: list[bytes] = []
        fill = iter(range(1 << 30))

        def check() -> None:
            share = chance.choice((0.0, 0.5, 0.9, 1.0))
            content = disk.left_by_a_power_cut(lambda: chance.random() < share)
            found = recovered_from(content, folder)
            assert found[: len(acknowledged)] == acknowledged
            further = found[len(acknowledged) :]
            assert further == in_flight[: len(further)]

        disk = Disk(folder / "log")
        use_backend(disk)
        async with AppendLog(disk.path) as log:
            disk.opened()
            disk.at_every_moment = check
            for sizes, room in steps:
                disk.room = room
                in_flight = [bytes([next(fill) % 251]) * size for size in sizes]
                if not await append_together(log, in_flight):
                    acknowledged += in_flight
                in_flight = []
                check()

    @settings(
        max_examples=40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(STEPS, st.randoms(use_true_random=False))
    def run(steps: list[tuple[list[int], int | None]], chance: random.Random) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_on(loop, follow, steps, chance, Path(folder))

    run()
