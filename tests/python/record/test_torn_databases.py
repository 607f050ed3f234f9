"""Databases of killed recorders: their logs, their links, and databases of others."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.record import (
    RecoveryError,
    SinkWriteError,
    SqliteSink,
    recover,
)
from penstock.record._files.sqlite_log import log_path, read_log
from tests.python.record.batches import flow_batch
from tests.python.record.killed_recordings import flows, killed_database, numbers

pytest.importorskip("pyarrow")


def test_a_database_is_one_recording_by_its_link_too(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    link = tmp_path / "linked" / "run.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    log = log_path(path)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        recover(link)
    assert log.read_bytes() == data

    async def replace() -> None:
        async with SqliteSink(link, overwrite=True) as sink:
            with pytest.raises(SinkWriteError, match="being recorded"):
                recover(path)
            await sink.write_batch(flow_batch(3))
            with pytest.raises(SinkWriteError, match="being recorded"):
                recover(path)

    anyio.run(replace)
    assert flows(path) == numbers(3)
    assert link.is_symlink()
    assert not list(tmp_path.rglob("*-lock"))


def test_the_log_of_a_killed_recorder_is_whole(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    found = read_log(log_path(path))
    assert found is not None
    assert (found.end, found.more) == (log_path(path).stat().st_size, "")
    assert not recover(path).changed
    assert flows(path) == numbers(50)


def test_transactions_behind_a_damaged_frame_are_given_up_only_by_force(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    log = log_path(path)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        recover(path)

    async def resume(**options: Any) -> SqliteSink:
        async with SqliteSink(path, append=True, **options) as sink:
            await sink.write_batch(flow_batch(1, first=50))
        return sink

    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        anyio.run(resume)
    assert log.read_bytes() == data
    sink = anyio.run(lambda: resume(force=True))
    assert sink.cuts[0].kept_in.read_bytes() == data
    kept = flows(path)
    assert kept[:-1] == numbers(len(kept) - 1)


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE samples (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(RecoveryError, match="was not written by Penstock"):
        recover(path)
    assert path.read_bytes() == before
