"""A log in several files: rotation, retention, and kills between."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from penstock.files import LogDamaged, LogError, LogLocked, SegmentedLog
from penstock.files._log import segmented_log

pytestmark = pytest.mark.anyio

RECORD = 28 + 10
"""Bytes of a record of ten bytes."""
SMALL = 24 + 5 * RECORD
"""Five such records fill a segment."""


def payload(number: int) -> bytes:
    return b"%010d" % number


async def numbers_in(log: SegmentedLog) -> list[int]:
    return [int(record) async for record in log]


def names(folder: Path) -> list[int]:
    return sorted(int(name.partition(".")[0]) for name in os.listdir(folder))


async def test_records_keep_their_numbers_across_segments(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        for number in range(12):
            assert await log.append(payload(number)) == number
        assert await log.append_many(map(payload, range(12, 16))) == range(12, 16)
        assert (log.first, log.count) == (0, 16)
        assert await numbers_in(log) == list(range(16))
        assert log.segments == [str(folder / f"{first:020d}.log") for first in (0, 5, 10)]
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        assert (log.first, log.count) == (0, 16)
        assert await log.append(payload(16)) == 16
        assert names(folder) == [0, 5, 10, 16]
        await log.rotate()
        await log.rotate()  # of an empty segment: nothing
        assert names(folder) == [0, 5, 10, 16, 17]
        assert await numbers_in(log) == list(range(17))


async def test_appends_that_wait_for_a_rotation_keep_their_order(tmp_path: Path) -> None:
    async with SegmentedLog(tmp_path / "log", segment_size=SMALL) as log:
        found: list[int] = []

        async def append(number: int) -> None:
            found.append(await log.append(payload(number)))

        for begin in range(0, 200, 10):
            async with anyio.create_task_group() as group:
                for number in range(begin, begin + 10):
                    group.start_soon(append, number)
        assert sorted(found) == list(range(200))
        assert len(log.segments) == 20
        assert sorted(await numbers_in(log)) == list(range(200))


async def test_old_segments_are_removed_by_size(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    async with SegmentedLog(folder, segment_size=SMALL, keep_size=3 * SMALL) as log:
        for number in range(38):
            await log.append(payload(number))
        assert names(folder) == [25, 30, 35]
        assert (log.first, log.count) == (25, 38)
        assert await numbers_in(log) == list(range(25, 38))
    async with SegmentedLog(folder, keep_size=1) as log:
        assert names(folder) == [35]
        assert (log.first, log.count) == (35, 38)


async def test_segments_end_and_are_removed_by_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "log"
    later = 0.0
    clock = segmented_log.time.time

    class Clock:
        @staticmethod
        def time() -> float:
            return clock() + later

    monkeypatch.setattr(segmented_log, "time", Clock)
    async with SegmentedLog(folder, segment_age=3600, keep_age=9000) as log:
        await log.append(payload(0))
        await log.append(payload(1))
        assert names(folder) == [0]
        later = 3601
        await log.append(payload(2))
        assert names(folder) == [0, 2]
    later = 9001
    async with SegmentedLog(folder, segment_age=3600, keep_age=9000) as log:
        # All files were written now; the last one is kept in any case.
        assert names(folder) == [2]
        assert await numbers_in(log) == [2]


async def test_segments_are_removed_that_a_reader_is_done_with(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        found: list[int] = []
        async with aclosing(log.follow()) as records:
            for number in range(23):
                await log.append(payload(number))
                found.append(int(await anext(records)))
                await log.remove_before(number + 1)
                assert log.first == number - number % 5  # the segment of the last record
        assert found == list(range(23))
        await log.remove_before(1000)
        assert names(folder) == [20]
        assert (log.first, log.count, await numbers_in(log)) == (20, 23, [20, 21, 22])
    with pytest.raises(LogError, match="closed"):
        await log.remove_before(23)


async def test_a_segment_that_cannot_be_removed_fails_no_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    async with SegmentedLog(tmp_path / "log", segment_size=SMALL, keep_size=SMALL) as log:
        for number in range(5):
            await log.append(payload(number))
        with monkeypatch.context() as patched, pytest.warns(RuntimeWarning, match="be removed"):
            patched.setattr(segmented_log.os, "unlink", refuse)
            assert await log.append(payload(5)) == 5
        assert await numbers_in(log) == list(range(6))
        await log.rotate()
        assert (log.first, log.count) == (5, 6)


async def test_followers_get_each_record_across_rotations(tmp_path: Path) -> None:
    async with SegmentedLog(tmp_path / "log", segment_size=SMALL) as log:
        seen: list[list[int]] = [[], []]
        complete = anyio.Event()

        async def follow(into: list[int]) -> None:
            async for record in log.follow():
                into.append(int(record))
                if all(len(each) == 103 for each in seen):
                    complete.set()

        async with anyio.create_task_group() as group:
            for into in seen:
                group.start_soon(follow, into)
            for number in range(103):
                await log.append(payload(number))
            await complete.wait()
            await log.close()
    assert seen == [list(range(103))] * 2


async def test_a_missing_and_a_damaged_segment_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        for number in range(18):
            await log.append(payload(number))
        second, third = log.segments[1:3]
        os.rename(second, tmp_path / "second")
        async with aclosing(log.follow()) as records:
            with pytest.raises(FileNotFoundError):
                async for _ in records:
                    pass
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        with pytest.raises(LogError, match="the records 5 to 9 are missing"):
            await numbers_in(log)
        os.rename(tmp_path / "second", second)
    with open(third, "r+b") as file:
        file.seek(40)
        file.write(b"?")
    async with SegmentedLog(folder, segment_size=SMALL) as log:
        with pytest.raises(LogDamaged):
            await numbers_in(log)


async def test_one_writer_has_the_log_open(tmp_path: Path) -> None:
    async with SegmentedLog(tmp_path / "log") as log:
        with pytest.raises(LogLocked):
            await SegmentedLog(tmp_path / "log").open()
        await log.close()
        with pytest.raises(LogError, match="closed"):
            await log.append(b"x")
        async with SegmentedLog(tmp_path / "log") as other:
            assert await other.append(b"x") == 0
    with pytest.raises(ValueError, match="keep_size is 0; it must be more than 0"):
        SegmentedLog(tmp_path / "log", keep_size=0)
