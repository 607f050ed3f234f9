"""Reading and salvaging damaged logs."""

from __future__ import annotations

import os
import random
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files import LogGap, NotALog
from penstock.files._log.log_format import FILE_HEADER_SIZE
from penstock.files._log.log_salvage import ScannedLog, copy_records
from tests.python.files.written_log import COMMITS, WrittenLog, encode_commit, open_and_read

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["format 1", "format 2"])


def scan(path: Path) -> tuple[list[bytes], list[LogGap]]:
    with closing(ScannedLog(str(path))) as log:
        return list(log), log.gaps


@VERSIONS
def test_every_record_but_the_damaged_one_is_found(tmp_path: Path, version: int) -> None:
    path = tmp_path / "log"
    written = WrittenLog(COMMITS, version)
    for offset in range(FILE_HEADER_SIZE, len(written.data)):
        damaged = bytearray(written.data)
        damaged[offset] ^= 0x10
        path.write_bytes(damaged)
        lost = written.whole_before(offset)
        records, gaps = scan(path)
        assert records == written.records[:lost] + written.records[lost + 1 :]
        assert [[gap.begin, gap.end] for gap in gaps] == [written.ends[lost : lost + 2]]
        assert gaps[0].torn == (offset >= written.commit_ends[-2])
        assert path.read_bytes() == damaged


@VERSIONS
def test_a_log_is_read_whose_own_header_is_damaged(tmp_path: Path, version: int) -> None:
    path = tmp_path / "log"
    written = WrittenLog(COMMITS, version)
    for offset in range(FILE_HEADER_SIZE):
        damaged = bytearray(written.data)
        damaged[offset] ^= 0x10
        damaged[written.ends[0]] ^= 0x10  # and the first record
        path.write_bytes(damaged)
        records, gaps = scan(path)
        assert records == written.records[1:]
        assert [gap.begin for gap in gaps] == [0, FILE_HEADER_SIZE]


def test_random_damage_loses_only_what_it_touches(tmp_path: Path) -> None:
    """And what is found was appended, in that order."""
    path = tmp_path / "log"
    for seed in range(300):
        chance = random.Random(seed)
        commits = [
            [chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(1, 5))]
            for _ in range(6)
        ]
        written = WrittenLog(commits)
        damaged = bytearray(written.data)
        touched = set()
        for _ in range(chance.randrange(1, 6)):
            begin = chance.randrange(FILE_HEADER_SIZE, len(damaged))
            end = min(len(damaged), begin + chance.randrange(1, 300))
            what = chance.choice(["zeros", "noise", "elsewhere"])
            if what == "zeros":
                damaged[begin:end] = bytes(end - begin)
            elif what == "noise":
                damaged[begin:end] = chance.randbytes(end - begin)
            else:
                source = chance.randrange(len(damaged) - (end - begin))
                damaged[begin:end] = written.data[source : source + end - begin]
            touched.update(range(begin, end))
        path.write_bytes(damaged)
        records, _ = scan(path)
        whole = [
            record
            for number, record in enumerate(written.records)
            if touched.isdisjoint(range(written.ends[number], written.ends[number + 1]))
        ]
        rest = iter(written.records)
        assert all(record in rest for record in records), seed  # in order, none twice
        rest = iter(records)
        assert all(record in rest for record in whole), seed  # none lost


def test_the_rest_of_a_damaged_batch_is_found_and_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog([])
    begin = len(written.data)
    data = written.data + encode_commit(
        written.identity, begin, [b"one", b"two", b"three"], batch=True
    )
    data += encode_commit(written.identity, len(data), [b"after"])
    damaged = bytearray(data)
    damaged[data.index(b"two")] ^= 1
    path.write_bytes(damaged)
    records, gaps = scan(path)
    assert records == [b"one", b"three", b"after"]
    assert [(gap.torn, gap.in_batch) for gap in gaps] == [(False, True)]
    path.write_bytes(data[: data.index(b"three")])
    records, gaps = scan(path)
    assert records == [b"one", b"two"]
    assert [(gap.torn, gap.in_batch) for gap in gaps] == [(True, True)]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(random.Random(1).randbytes(3 << 20))
    with pytest.raises(NotALog, match="neither a header nor any record"):
        ScannedLog(str(path))


def test_a_copy_is_a_log_of_its_own(tmp_path: Path) -> None:
    records = [b"x" * size for size in (0, 1, 5 << 20, 17 << 20, 3)]
    copy_records(iter(records), str(tmp_path / "copy"))
    assert open_and_read(tmp_path / "copy")[1] == records
    with pytest.raises(FileExistsError):
        copy_records([], str(tmp_path / "copy"))

    def failing() -> Any:
        yield b"x"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        copy_records(failing(), str(tmp_path / "other"))
    assert os.listdir(tmp_path) == ["copy"]


def test_a_scan_reads_every_record_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WrittenLog([[b"%d" % n] for n in range(1000)]).data)
    with closing(ScannedLog(str(path))) as log:
        deque(log, maxlen=0)
        assert (log.records, log.gaps) == (1000, [])


@pytest.mark.anyio
async def test_a_salvage_that_is_cancelled_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WrittenLog([[b"%d" % n] for n in range(50_000)]).data)
    async with anyio.create_task_group() as group:
        group.start_soon(files.salvage_log, path, tmp_path / "new")
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert os.listdir(tmp_path) in (["log"], ["log", "new"], ["new", "log"])
    report = await files.check_log(path)
    assert (report.records, report.gaps, report.damaged) == (50_000, (), False)
    if not (tmp_path / "new").exists():
        assert await files.salvage_log(path, tmp_path / "new") == report
    assert (await files.check_log(tmp_path / "new")).records == 50_000
