"""Journals of parts: torn ends, damage in the middle, folders without their state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.record import (
    ParquetSink,
    RecoveryError,
    recover,
)
from penstock.record._parts.journal import JournalContent, _whole_batches, read_journal
from penstock.record._parts.parts_folder import PartsFolder
from tests.python.record.batches import flow_batch
from tests.python.record.killed_recordings import flows, killed_parquet, numbers

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", ["run.parquet", "run"])
def test_a_journal_with_a_torn_end_is_kept(tmp_path: Path, name: str) -> None:
    path, journal = killed_parquet(tmp_path, 3, name)
    torn = journal.read_bytes()[:-20]
    journal.write_bytes(torn)
    recovery = recover(path)
    assert recovery.rows == 20
    (cut,) = recovery.cuts
    assert cut.kept_in.read_bytes() == torn
    assert cut.kept_in.exists()
    assert flows(path) == numbers(20)


def test_a_journal_torn_anywhere_in_a_batch_is_what_a_kill_leaves(tmp_path: Path) -> None:
    """Also between the dictionaries of the batch and its values, and in them."""
    _, journal = killed_parquet(tmp_path, 1)
    whole = journal.read_bytes()
    first = torn_to(journal, whole[:-1]).end
    for size in range(first, len(whole), 7):
        read = torn_to(journal, whole[:size])
        assert (read.end, read.more) == (first, ""), size


def torn_to(journal: Path, data: bytes) -> JournalContent:
    journal.write_bytes(data)
    return read_journal(journal)


def test_batches_behind_a_damaged_one_are_given_up_only_by_force(tmp_path: Path) -> None:
    path, journal = killed_parquet(tmp_path, 5)
    whole = journal.read_bytes()
    second = [at for at in range(0, len(whole), 8) if whole[at : at + 4] == b"\xff" * 4][-3]
    damaged = whole[: second + 8] + bytes(64) + whole[second + 72 :]
    journal.write_bytes(damaged)
    with pytest.raises(RecoveryError, match="whole batches follow"):
        recover(path)
    assert journal.read_bytes() == damaged
    assert not path.exists()
    (cut,) = recover(path, force=True).cuts
    assert cut.kept_in == tmp_path / "run.parquet.torn"
    assert cut.kept_in.read_bytes() == damaged
    kept = flows(path)
    assert 0 < len(kept) < 50
    assert kept == numbers(len(kept))


def test_columns_of_ones_behind_the_damage_are_not_read_as_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each four bytes of them look like the beginning of one: reading all would take hours."""
    import pyarrow.ipc

    read: list[object] = []
    monkeypatch.setattr(pyarrow.ipc, "read_message", read.append)
    assert not _whole_batches(b"\xff" * 65_536)
    assert not read


@pytest.mark.parametrize("name", ["run.parquet", "run"])
def test_rows_of_a_folder_that_has_lost_its_id_stay(tmp_path: Path, name: str) -> None:
    path, journal = killed_parquet(tmp_path, 3, name)
    journal.with_name("run.json").unlink()
    before = journal.read_bytes()
    with pytest.raises(RecoveryError, match=r"run\.json cannot be read"):
        recover(path)
    assert journal.read_bytes() == before


def test_replacing_a_folder_leaves_the_recordings_below_it(tmp_path: Path) -> None:
    async def record(path: Path, **options: Any) -> None:
        async with ParquetSink(path, **options) as sink:
            await sink.write_batch(flow_batch(5))

    below = tmp_path / "runs" / "monday"
    for path in (below.parent, below):
        anyio.run(record, path)
    anyio.run(lambda: record(below.parent, overwrite=True))
    assert flows(below) == numbers(5)


def cut_off_while_joining(path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Record two parts, and stop behind the file that was made of them."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    async def record() -> None:
        async with ParquetSink(path, part_rows=5) as sink:
            for first in (0, 5):
                await sink.write_batch(flow_batch(5, first=first))

    with monkeypatch.context() as patched:
        patched.setattr(PartsFolder, at, kill)
        with pytest.raises(Killed):
            anyio.run(record)
    assert path.exists()
    assert path.with_name("run.parquet.parts").exists()


@pytest.mark.parametrize("at", ["remove", "_remove_partitions"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [({"append": True}, [*numbers(10), 20.0, 21.0]), ({"overwrite": True}, [20.0, 21.0])],
)
def test_a_run_behind_one_that_was_cut_off_while_joining_has_its_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    expected: list[float],
    at: str,
) -> None:
    path = tmp_path / "run.parquet"
    cut_off_while_joining(path, monkeypatch, at)
    assert flows(path) == numbers(10)

    async def record() -> None:
        async with ParquetSink(path, **options) as sink:
            await sink.write_batch(flow_batch(2, first=20))

    anyio.run(record)
    assert flows(path) == expected
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["run.parquet", "run.parquet.seals"]
