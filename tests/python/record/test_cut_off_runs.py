"""A kill takes another end from each format: a told seam, and never hidden where it is more."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import ParquetSink, RecoveryError, check_seals, recover
from penstock.record._cut_off_runs import cut_off_runs
from penstock.record._seals.seal import seals_path
from penstock.record._seals.seal_writer import WholeFileSeal
from penstock.record._sinks.line_file import LineFile
from penstock.record.format_comparison import find_differences
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch

pytest.importorskip("pyarrow")

# The rows of each format when its process was killed.
ROWS = {
    "run.parquet": 100,
    "run": 70,
    "run.arrow": 100,
    "run.csv": 90,
    "run.jsonl": 110,
    "run.sqlite": 80,
}


def record(path: Path, run: str, first: int, rows: int, *, kill_into: Path | None = None) -> None:
    """Write a run. With ``kill_into``, what is there of it before its end is copied there."""

    async def main() -> None:
        sink = sink_for(path, append=True, loss_rows=0)
        await sink.open(None, {"run_id": run})
        for start in range(first, first + rows, 10):
            await sink.write_batch(flow_batch(10, first=start))
        if kill_into is not None:
            shutil.copytree(path.parent, kill_into, dirs_exist_ok=True)
        await sink.close()

    anyio.run(main)


def killed(folder: Path, run: str = "one", rows: dict[str, int] = ROWS) -> None:
    """What ``kill -9`` leaves of a run in these formats."""
    for name, count in rows.items():
        away = folder.with_name("away")
        away.mkdir()
        record(away / name, run, 0, count, kill_into=folder)
        shutil.rmtree(away)


def test_after_a_kill_and_a_resumed_run_the_formats_agree_but_for_a_seam(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    killed(folder)
    assert main(["verify", str(folder)]) == 0, capsys.readouterr().out
    capsys.readouterr()
    for name in ROWS:
        record(folder / name, "two", 200, 50)
        assert cut_off_runs(folder / name) == {"one"}
    found = find_differences(folder)
    assert found.problems == []
    fullest = folder / "run.jsonl"
    assert sorted(found.seams) == sorted(
        f"rows {count + 1} to 110 of {fullest} are not in {folder / name}, where their run was "
        "cut off"
        for name, count in ROWS.items()
        if count < 110
    )
    assert main(["verify", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "no problem" in out
    assert out.count("  seam: ") == len(ROWS) - 1
    for name in ("run.csv", "run.jsonl", "run.sqlite", "run"):
        (told,) = (line for line in out.splitlines() if line.startswith(f"  {folder / name}: "))
        assert told.endswith("; a run in it was cut off")
    assert "samples 160" in out  # those of the fullest format


def test_a_recovered_run_that_another_follows_is_still_known_to_be_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    killed(folder)
    for name in ROWS:
        recover(folder / name)
        assert cut_off_runs(folder / name) == {"one"}
        for run in ("two", "three"):
            record(folder / name, run, 200, 10)
            assert cut_off_runs(folder / name) == {"one"}
    assert find_differences(folder).problems == []


def test_rows_that_a_closed_run_lacks_are_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rows in (("run.csv", 90), ("run.parquet", 100)):
        record(tmp_path / name, "one", 0, rows)
        record(tmp_path / name, "two", 200, 10)
    found = find_differences(tmp_path)
    assert found.seams == []
    assert found.problems == [
        f"rows 91 to 100 of {tmp_path / 'run.parquet'} are not in {tmp_path / 'run.csv'}, which "
        "does not say that their run was cut off"
    ]
    assert main(["verify", str(tmp_path)]) == 8


def test_more_than_a_kill_takes_is_a_difference(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    killed(folder, rows={"run.csv": 90, "run.jsonl": 400})
    (problem,) = find_differences(folder).problems
    assert problem == (
        f"rows 91 to 400 of {folder / 'run.jsonl'} are not in {folder / 'run.csv'}: its run was "
        "cut off there, but they are of 15 s, which is more than a kill takes"
    )
    assert main(["verify", str(folder)]) == 8


def test_values_behind_a_seam_are_compared(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    names = {name: ROWS[name] for name in ("run.csv", "run.sqlite")}
    killed(folder, rows=names)
    for name in names:
        record(folder / name, "two", 200, 50)
    with closing(sqlite3.connect(folder / "run.sqlite")) as database, database:
        database.execute("UPDATE samples_2 SET Mass_Flow = -1 WHERE rowid = 3")
    assert find_differences(folder).problems == [
        f"Mass_Flow of row 83 is -1.0 in {folder / 'run.sqlite'} and 202.0 in {folder / 'run.csv'}"
    ]


def test_a_run_that_only_one_format_has_is_a_seam_if_it_was_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    killed(folder, rows={"run.csv": 20})
    for name in ("run.csv", "run.jsonl"):
        record(folder / name, "two", 200, 50)
    found = find_differences(folder)
    assert found.problems == []
    assert found.seams == [
        f"rows 1 to 20 of {folder / 'run.csv'} are not in {folder / 'run.jsonl'}, where their run "
        "was cut off"
    ]


class Killed(BaseException):
    """In the place of a kill."""


def renamed_and_not_sealed(path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A recorder that is killed when its only part has the name of the file, before its seal."""

    def kill(*_: object) -> None:
        raise Killed

    async def run() -> None:
        async with ParquetSink(path) as sink:
            await sink.write_batch(flow_batch(100))

    with monkeypatch.context() as patched:
        patched.setattr(WholeFileSeal, "finish", kill)
        with pytest.raises(Killed):
            anyio.run(run)
    assert not seals_path(path).exists()
    assert not list(path.with_name("run.parquet.parts").glob("part-*"))
    return path.read_bytes()


def test_a_file_that_a_kill_has_kept_from_its_seal_is_told_and_sealed_by_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.parquet"
    renamed_and_not_sealed(path, monkeypatch)
    assert main(["verify", str(path)]) == 0
    told = "its recorder was killed before it had sealed it; penstock recover seals it"
    assert f"unproven: {told}\n" in capsys.readouterr().out
    assert main(["recover", str(path)]) == 0
    assert capsys.readouterr().out == f"recovered {path}: its missing seal added\n"
    (found,) = check_seals(path)
    assert (found.sealed, found.rows, found.ended) == (True, 100, ["cut off"])
    assert found.problems == []
    assert not path.with_name("run.parquet.parts").exists()


def test_a_resumed_run_seals_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    renamed_and_not_sealed(path, monkeypatch)
    record(path, "two", 200, 10)
    found = check_seals(path)
    assert [each.rows for each in found] == [110]
    assert all(each.sealed and not each.problems for each in found)


def test_a_file_that_has_changed_before_its_seal_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.parquet"
    data = bytearray(renamed_and_not_sealed(path, monkeypatch))
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert check_seals(path)[0].problems == ["it has changed: it is not as it was sealed as part 1"]
    assert main(["verify", str(path)]) in (5, 8)
    with pytest.raises(RecoveryError, match="has been damaged since: it is not as it was sealed"):
        recover(path)
    assert not seals_path(path).exists()


def test_a_text_whose_description_is_lost_is_compared_with_what_it_lies_beside(
    tmp_path: Path,
) -> None:
    for name in ("run.csv", "run.parquet"):
        for run, first in (("one", 0), ("two", 200)):
            record(tmp_path / name, run, first, 50)
    assert find_differences(tmp_path).problems == []
    for path in tmp_path.glob("*.meta.json"):
        path.unlink()
    assert find_differences(tmp_path).problems == []
    record(tmp_path / "run.parquet", "three", 400, 10)
    assert find_differences(tmp_path).problems == [
        f"rows 101 to 110 of {tmp_path / 'run.parquet'} are not in {tmp_path / 'run.csv'}, which "
        "does not say that their run was cut off"
    ]


def test_recover_seals_nothing_behind_a_text_whose_line_ends_were_changed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    killed(folder, rows={"run.jsonl": 100})
    path = folder / "run.jsonl"
    seals = seals_path(path).read_bytes()
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not recover(path).changed
    assert seals_path(path).read_bytes() == seals
    (found,) = check_seals(path)
    assert [problem.rpartition(", ")[2] for problem in found.problems] == ["and nothing else"]
    assert cut_off_runs(path) == {"one"}


def test_a_run_behind_another_that_was_killed_between_two_parts_is_known_to_be_cut_off(
    tmp_path: Path,
) -> None:
    path, folder = tmp_path / "away" / "run.parquet", tmp_path / "out"
    path.parent.mkdir()
    record(path, "one", 0, 50)

    async def main() -> None:
        sink = ParquetSink(path, append=True, loss_rows=0, part_rows=20)
        await sink.open(None, {"run_id": "two"})
        for start in (200, 210):
            await sink.write_batch(flow_batch(10, first=start))
        shutil.copytree(path.parent, folder)
        await sink.close()

    anyio.run(main)
    killed_file = folder / "run.parquet"
    assert not list(folder.rglob("journal-*"))
    assert cut_off_runs(killed_file) == {"two"}
    recover(killed_file)
    assert cut_off_runs(killed_file) == {"two"}
    record(killed_file, "three", 400, 10)
    assert cut_off_runs(killed_file) == {"two"}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["run.csv", "run.jsonl"])
def test_a_kill_between_two_files_leaves_none_that_names_a_missing_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    after: bool,
) -> None:
    live, kept = tmp_path / "live", tmp_path / "kept"
    live.mkdir()
    finish = LineFile._finish_part

    def finish_and_copy(file: LineFile, facts: Mapping[str, Any]) -> None:
        moments = [after, not after] if "continued_in" in facts else [False, False]
        if moments[1]:
            shutil.copytree(live, kept)
        finish(file, facts)
        if moments[0]:
            shutil.copytree(live, kept)

    record(live / name, "one", 0, 20)
    with monkeypatch.context() as patched:
        patched.setattr(LineFile, "_finish_part", finish_and_copy)
        record(live / name, "two", 40, 20)
    assert main(["verify", str(kept / name)]) == 0, capsys.readouterr().out
    record(kept / name, "three", 100, 10)
    assert main(["verify", "--deep", str(kept / name)]) == 0, capsys.readouterr().out
    assert len(penstock.record.open(kept / name).to_arrow()) == 30


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl"])
def test_a_file_of_a_killed_run_that_was_removed_is_a_difference(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    for each in (name, "run.parquet"):
        away = tmp_path / f"away of {each}"
        away.mkdir()
        record(away / each, "one", 0, 50)
        record(away / each, "two", 200, 100, kill_into=folder)
    assert find_differences(folder).problems == []
    for file in folder.glob("run.part2.*"):
        file.unlink()
    found = find_differences(folder)
    assert found.seams == []
    assert found.problems == [
        f"rows 51 to 150 of {folder / 'run.parquet'} are not in {folder / name}, which does not "
        "say that their run was cut off"
    ]
