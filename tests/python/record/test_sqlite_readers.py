"""Who reads a database leaves the folder as it was."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import penstock.record
from penstock.cli import main
from penstock.record._stored.sqlite_tables import connected
from tests.python.record.killed_recordings import killed_database
from tests.python.record.sealed_recordings import write

pytest.importorskip("pyarrow")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(path: Path) -> int:
    return len(penstock.record.open(path).to_arrow())


def test_reading_a_folder_with_a_closed_database_leaves_nothing_beside_it(tmp_path: Path) -> None:
    for name in ("run.csv", "run.sqlite"):
        write(tmp_path / name, 0, 200)
    before = content(tmp_path)
    assert rows_of(tmp_path) == 200
    assert rows_of(tmp_path / "run.sqlite") == 200
    assert main(["verify", "--deep", str(tmp_path)]) == 0
    assert main(["plot", str(tmp_path)]) == 0
    assert content(tmp_path) == before


def test_a_log_that_a_kill_has_left_is_read_and_stays(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    before = content(path.parent)
    assert rows_of(path) == 50
    assert main(["verify", str(path)]) == 0
    assert rows_of(path) == 50
    assert main(["verify", str(path.parent)]) == 0
    assert main(["export", str(path), str(tmp_path / "out.csv")]) == 0
    assert content(path.parent) == before


def count(database: sqlite3.Connection) -> int:
    ((rows,),) = database.execute("SELECT count(*) FROM samples")
    return int(rows)


def test_readers_of_one_process_share_the_index_that_the_last_one_removes(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    before = content(path.parent)
    with closing(connected(path)) as first:
        assert count(first) == 50
        with closing(connected(path)) as second:
            assert count(second) == 50
        assert path.with_name("run.sqlite-shm").exists()
        assert count(first) == 50
    assert content(path.parent) == before


def test_an_index_that_somebody_uses_or_that_was_there_stays(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    index = path.with_name("run.sqlite-shm")
    with closing(connected(path)) as ours:
        assert count(ours) == 50
        other = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        assert count(other) == 50
    with closing(other):
        assert index.exists()
        assert count(other) == 50
    assert rows_of(path) == 50
    assert index.exists()


def test_a_damaged_log_is_named_and_stays_for_recover(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = killed_database(tmp_path, 5)
    log = path.with_name("run.sqlite-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    for _ in range(2):
        assert main(["verify", str(path)]) == 8
        assert "confirmed transactions follow the damaged place" in capsys.readouterr().out
        assert log.read_bytes() == data
    assert main(["recover", str(path)]) == 5
    assert main(["recover", "--force", str(path)]) == 0
    assert path.with_name("run.sqlite-wal.torn").read_bytes() == data


def test_a_database_on_a_read_only_medium_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "run.sqlite", 0, 200)
    path = killed_database(tmp_path, 5)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    before = content(path.parent)
    for target in (tmp_path / "run.sqlite", path):
        code = main(["verify", str(target)])
        shown = capsys.readouterr()
        if target == path:
            assert code == 5
            assert "a kill has left its log, which SQLite reads only in a folder that" in shown.err
        else:
            assert (code, "samples 200" in shown.out) == (0, True)
    assert content(path.parent) == before
    assert not (tmp_path / "run.sqlite-wal").exists()
    assert not (tmp_path / "run.sqlite-shm").exists()
