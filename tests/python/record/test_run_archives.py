"""The archive of a run: its files, its manifests and its owners, without a server."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import penstock
from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives import ArchiveError, archive_files, store_at
from penstock.record.archives.manifest import Fenced, Manifest, load_manifest, manifests
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.stores import StoredObject
from penstock.record.archives.waiting_run import RunOptions, identity_of
from tests.python.documentation.page_steps import DOCS, blocks
from tests.python.record.archived_messages import archived_run, loaded_run, message, rows_of
from tests.python.record.batches import flow_batch

ENV = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}


def test_of_two_owners_one_is_refused(tmp_path: Path) -> None:
    store = store_at(str(tmp_path))
    first, second = (loaded_run(store) for _ in range(2))
    for each in (first, second):
        each.add(message(1, 1))
    first.write()
    with pytest.raises(Fenced):
        second.write()
    assert [row[2] for row in rows_of(tmp_path)] == [1]
    # Also when the version that it would make has been removed since.
    stale = loaded_run(store)
    for part in range(2, 15):
        first.add(message(part, part))
        first.write()
    stale.add(message(2, 2))
    with pytest.raises(Fenced):
        stale.write()
    assert len(rows_of(tmp_path)) == 14
    assert load_manifest(store, "r").devices["fuel"].part == 14
    assert len(list((tmp_path / "_archive" / "r").iterdir())) <= 9


def test_files_of_an_owner_that_was_stopped_are_not_removed_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between its file and its manifest, for longer than files without one stay."""
    store: Any = store_at(str(tmp_path))
    first = archived_run(store, message(1, 1))
    second = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    first.add(message(2, 2))
    create = store.create

    def stopped(name: str, data: bytes) -> bool:
        for path in tmp_path.rglob("*.parquet"):
            os.utime(path, (0, 0))
        second.load()
        assert len(list(tmp_path.rglob("*.parquet"))) == 1
        return bool(create(name, data))

    monkeypatch.setattr(store, "create", stopped)
    with pytest.raises(Fenced):
        first.write()
    second.add(message(2, 2))
    second.write()
    assert [row[2] for row in rows_of(tmp_path)] == [1, 2]


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its manifests, a run would seem to have no files, and those that it has would go."""
    archived_run(store_at(str(tmp_path)), message(1, 1))
    [path] = archive_files(tmp_path)
    os.utime(path, (0, 0))
    scandir = os.scandir

    def refuse(folder: Any) -> Any:
        if "_archive" in os.fspath(folder):
            raise OSError(errno.EMFILE, "Too many open files")
        return scandir(folder)

    again = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ArchiveError, match="cannot be read: Too many open files"):
        again.load()
    monkeypatch.undo()
    assert archive_files(tmp_path) == [path]
    assert Path(path).exists()


def test_an_unclear_commit_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has taken the manifest, and its answer was lost."""
    store: Any = store_at(str(tmp_path))
    archive = loaded_run(store)
    archive.add(message(1, 1))
    create = store.create

    def lost(name: str, data: bytes) -> bool:
        create(name, data)
        raise TimeoutError

    monkeypatch.setattr(store, "create", lost)
    with pytest.raises(TimeoutError):
        archive.write()
    monkeypatch.undo()
    assert archive.write().rows == 1
    archive.add(message(2, 2))
    assert archive.write().rows == 2
    assert [row[3] for row in rows_of(tmp_path)] == [10.0, 20.0]


def test_small_files_are_joined_and_the_old_ones_go(tmp_path: Path) -> None:
    store = store_at(str(tmp_path))
    archive = loaded_run(store, join=4, grace=3600.0)
    for part in range(1, 5):
        archive.add(message(part, part))
        archive.write()
    before = rows_of(tmp_path)
    assert len(archive_files(tmp_path)) == 4
    assert archive.tidy() and not archive.tidy()
    assert len(archive_files(tmp_path)) == 1
    assert rows_of(tmp_path) == before
    assert len(list(tmp_path.rglob("*.parquet"))) == 5
    later = loaded_run(store, grace=0.0)
    assert later.tidy() and not later.tidy()
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    assert rows_of(tmp_path) == before


@pytest.mark.parametrize("devices", ["ab", "ba"])
def test_joined_files_have_the_rows_of_a_device_together(tmp_path: Path, devices: str) -> None:
    run = loaded_run(store_at(str(tmp_path)), join=3, grace=0.0)
    for part in (1, 2, 3):
        for number, device in enumerate(devices):
            run.add(message(part, 2 * part + number, 2, device=device))
        run.write()
    while run.tidy():
        pass
    assert len(archive_files(tmp_path)) == 1
    found = [(device, row) for _, device, row, _ in rows_of(tmp_path)]
    assert found == [(device, row) for device in "ab" for row in range(2, 8)]


def test_files_of_another_order_are_sorted_when_they_are_joined(tmp_path: Path) -> None:
    """As of an archive that somebody has mended by hand."""
    run = loaded_run(store_at(str(tmp_path)), join=2, grace=0.0)
    for part in (1, 2):
        run.add(message(part, part, 3))
        run.write()
    for name in archive_files(tmp_path):
        table = pyarrow.parquet.ParquetFile(name).read()
        pyarrow.parquet.write_table(table.take([2, 0, 1]), name)
    while run.tidy():
        pass
    assert [row[2] for row in rows_of(tmp_path)] == [3, 4, 5, 6, 7, 8]


def test_a_day_and_a_gap_show(tmp_path: Path) -> None:
    archive = loaded_run(store_at(str(tmp_path)))
    archive.add(message(1, 1))
    archive.add(message(4, 9))
    archive.add(message(3, 10))
    noon_to_noon = 24 * 3600 * 20 // 10  # of parts, each 10 rows of 50 ms after the one before
    archive.add(message(noon_to_noon, 11))
    manifest = archive.write()
    assert [each.day for each in manifest.files] == ["2026-11-21", "2026-11-22"]
    assert manifest.devices["fuel"].missing == 2 + noon_to_noon - 5
    assert Manifest.from_json(manifest.to_json(), "") == manifest


def test_query_reads_what_the_manifest_names(tmp_path: Path) -> None:
    store = store_at(str(tmp_path / "a"))
    for run in ("r", "s"):
        archived_run(store, message(1, 1, 3, run), run=run)
    [first, _] = archive_files(tmp_path / "a")
    orphan = Path(first).with_name("000000000009-killed.parquet")
    orphan.write_bytes(Path(first).read_bytes())
    sql = "SELECT run, count(*) n, sum(Mass_Flow) s FROM samples GROUP BY run ORDER BY run"
    command = [sys.executable, "-m", "penstock.cli", "query", str(tmp_path / "a"), sql]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, check=True, env=ENV)
    assert json.loads(done.stdout) == [
        {"run": "r", "n": 3, "s": 33.0},
        {"run": "s", "n": 3, "s": 33.0},
    ]
    assert [each.run for each in manifests(store)] == ["r", "s"]


def test_the_program_of_the_page(tmp_path: Path) -> None:
    archived_run(store_at(str(tmp_path)), message(1, 1))
    [code] = [each.text for each in blocks(DOCS / "archive.md") if each.language == "python"]
    names: dict[str, Any] = {}
    exec(compile(code.replace("/data/archive", str(tmp_path)), "docs/archive.md", "exec"), names)
    assert names["files"] == archive_files(tmp_path) != []


@pytest.mark.parametrize("number", ["²", "9" * 5000, "-1", "1e3", ""])
def test_an_identity_that_no_recorder_wrote_is_none(number: str) -> None:
    stranger = StreamMessage(1, "lab.r.fuel", f"r/fuel/{number}", 0, b"")
    assert identity_of(stranger) == ("", "", 0)


def test_fields_that_are_called_like_columns_of_an_archive_do_not_hide_them(
    tmp_path: Path,
) -> None:
    rows = pyarrow.Table.from_batches([flow_batch(2).to_arrow()])
    for name in ("run", "day", "archive_row", "archive_run", "field_run"):
        rows = rows.append_column(name, pyarrow.array([len(name) + 0.5, 0.0]))
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    data = sink.getvalue().to_pybytes()
    archived_run(store_at(str(tmp_path)), StreamMessage(1, "lab.r.fuel", "r/fuel/1", 5, data))
    [path] = archive_files(tmp_path)
    table = pyarrow.parquet.ParquetFile(path).read()
    assert table["archive_row"].to_pylist() == [5, 6]
    assert table.schema.field("Mass_Flow").metadata[b"unit"] == b"SCCM"
    assert table.schema.metadata.keys() >= rows.schema.metadata.keys()
    assert not {"run", "day", "archive_run"} & set(table.column_names)
    found = {name: table[name][0].as_py() for name in table.column_names if "field_" in name}
    assert found == {
        "field_run": 3.5,
        "field_day": 3.5,
        "field_archive_row": 11.5,
        "field_archive_run": 11.5,
        "field_field_run": 9.5,
    }


def test_a_manifest_that_is_listed_and_never_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = 0

    def listed(folder: str) -> list[StoredObject]:
        nonlocal lists
        lists += 1
        assert lists < 50, "asked for ever"
        return [StoredObject(f"{folder}000000000007.json", 1, 0.0)]

    store = store_at(str(tmp_path))
    monkeypatch.setattr(store, "list", listed)
    with pytest.raises(
        ArchiveError, match=r"000000000007\.json was listed \d+ times, but is not there"
    ):
        load_manifest(store, "r")
