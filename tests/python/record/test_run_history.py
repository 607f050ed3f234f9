"""Folders of several runs are one history: rows in order, pauses named, formats chosen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import (
    CsvSink,
    Field,
    ParquetSink,
    RecordError,
    RecordSchema,
    SampleBatch,
    SqliteSink,
)
from penstock.record.run_history import Pause, RecordedRun, pauses_between
from tests.python.record.batches import NOON_NS, flow_batch

pytestmark = pytest.mark.anyio

PERIOD_NS = 50_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def batch_of(run: str, first: int, rows: int = 10, unit: str = "SCCM") -> SampleBatch:
    """Rows from the slot ``first`` on, in a run of this name."""
    fields = (Field("Mass_Flow", "float", unit), Field("Gas", "text"))
    about = {"run_id": run, "devices": {"fuel": {"rate_hz": 20}}}
    return flow_batch(rows, first, RecordSchema(fields, json.dumps(about)))


async def write(path: Path, *batches: SampleBatch) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, Any] = {".csv": CsvSink, ".sqlite": SqliteSink}
    async with kinds.get(path.suffix, ParquetSink)(path) as sink:
        for batch in batches:
            await sink.write_batch(batch)


def flows(path: Path) -> list[float]:
    found: list[float] = penstock.record.open(path).to_arrow()["Mass_Flow"].to_pylist()
    return found


async def test_runs_in_folders_are_in_the_order_of_their_rows(tmp_path: Path) -> None:
    await write(tmp_path / "z first" / "samples.csv", batch_of("one", 0))
    await write(tmp_path / "2026" / "11" / "samples.parquet", batch_of("three", 50, unit="SLPM"))
    await write(tmp_path / "a second" / "samples.sqlite", batch_of("two", 20))
    await write(tmp_path / "parts run" / "samples", batch_of("four", 80))
    recording = penstock.record.open(tmp_path)
    wanted = [float(n) for first in (0, 20, 50, 80) for n in range(first, first + 10)]
    assert flows(tmp_path) == wanted
    assert [part.units["Mass_Flow"] for part in recording.parts()] == [
        "SCCM",
        "SCCM",
        "SLPM",
        "SCCM",
    ]
    assert [(run.run_id, run.rows) for run in recording.runs()] == [
        ("one", 10),
        ("two", 10),
        ("three", 10),
        ("four", 10),
    ]
    first = recording.pauses()[0]
    assert (first.begin, first.end) == (
        recording.runs()[0].end,
        recording.runs()[1].begin,
    )
    assert str(first) == (
        "no recorder ran for 0.55 s, from 2026-11-21T12:00:00Z to 2026-11-21T12:00:01Z"
    )


async def test_a_resumed_file_and_files_of_other_names_are_runs(tmp_path: Path) -> None:
    await write(tmp_path / "b.csv", batch_of("one", 0))
    async with CsvSink(tmp_path / "b.csv", append=True) as sink:
        await sink.write_batch(batch_of("two", 30))
    await write(tmp_path / "a.csv", batch_of("three", 60))
    assert [run.run_id for run in penstock.record.open(tmp_path).runs()] == ["one", "two", "three"]
    assert flows(tmp_path)[20:] == [float(n) for n in range(60, 70)]
    assert len(penstock.record.open(tmp_path / "b.csv").pauses()) == 1


async def test_each_run_is_read_in_the_format_with_most_rows(tmp_path: Path) -> None:
    for kind, rows in (("csv", 10), ("parquet", 4)):
        await write(tmp_path / "one" / f"samples.{kind}", batch_of("one", 0, rows))
    for kind, rows in (("csv", 3), ("parquet", 10)):
        await write(tmp_path / "two" / f"samples.{kind}", batch_of("two", 20, rows))
    assert [part.path.suffix for part in penstock.record.open(tmp_path).parts()] == [
        ".csv",
        ".parquet",
    ]
    assert len(flows(tmp_path)) == 20


async def test_rows_of_runs_that_overlap_are_in_the_order_of_time(tmp_path: Path) -> None:
    await write(tmp_path / "one" / "samples.parquet", batch_of("one", 0, 20))
    await write(tmp_path / "two" / "samples.parquet", batch_of("two", 10, 20))
    recording = penstock.record.open(tmp_path)
    stamps = recording.to_arrow()["t_utc"].cast("int64").to_pylist()
    assert stamps == sorted(stamps)
    assert len(stamps) == 40
    assert recording.pauses() == []


async def test_merged_tables_are_the_rows_of_to_arrow_in_pieces(tmp_path: Path) -> None:
    for name, first in (("one.parquet", 0), ("two.csv", 10), ("three", 35), ("four.csv", 60)):
        unit = "SLPM" if name == "two.csv" else "SCCM"
        run = name.partition(".")[0]
        await write(tmp_path / run / name, batch_of(run, first, 20, unit=unit))
    recording = penstock.record.open(tmp_path)
    tables = list(recording.merged_tables())
    assert len(tables) > 2
    assert all(table.schema.equals(tables[0].schema, check_metadata=True) for table in tables)
    assert pyarrow.concat_tables(tables).equals(recording.to_arrow(), check_metadata=True)
    few = pyarrow.concat_tables(recording.merged_tables(["Mass_Flow"]))
    assert few.column_names == ["t_utc", "Mass_Flow"]
    assert few.equals(recording.to_arrow().select(["t_utc", "Mass_Flow"]))
    alone = penstock.record.open(tmp_path / "two" / "two.csv")
    assert pyarrow.concat_tables(alone.merged_tables()).equals(alone.to_arrow())


async def test_a_recording_without_rows_has_no_merged_table_with_one(tmp_path: Path) -> None:
    async with CsvSink(tmp_path / "run.csv") as sink:
        await sink.write_batch(batch_of("one", 0, 0))
        recording = penstock.record.open(tmp_path / "run.csv")
        assert sum(len(table) for table in recording.merged_tables()) == 0


async def test_a_clock_that_was_set_back_changes_no_order_within_a_run(tmp_path: Path) -> None:
    # The rows 15 and 16 were recorded before 12 and 13.
    await write(tmp_path / "one" / "samples.csv", batch_of("one", 15, 2), batch_of("one", 12, 2))
    await write(tmp_path / "two" / "samples.csv", batch_of("two", 10, 8))
    found = penstock.record.open(tmp_path).to_arrow()["Mass_Flow"].to_pylist()
    assert found == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 15.0, 16.0, 16.0, 12.0, 13.0, 17.0]


async def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    await write(tmp_path / "one" / "samples.parquet", batch_of("one", 0))
    for name in (".hidden", "_unfinished", "device=fuel"):
        await write(tmp_path / name / "samples.parquet", batch_of("other", 100))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("nothing")
    assert len(flows(tmp_path)) == 10
    with pytest.raises(RecordError, match="no folder in it is"):
        penstock.record.open(tmp_path / "notes")


async def test_the_folder_that_one_stands_in_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path / "one" / "samples.csv", batch_of("one", 0))
    monkeypatch.chdir(tmp_path)
    assert len(flows(Path("."))) == 10


def test_pauses_are_named_with_their_length() -> None:
    second = 1_000_000_000
    runs = [
        RecordedRun("a", Path("a"), 0, 10 * second, 1),
        RecordedRun("b", Path("b"), 5 * second, 7 * second, 1),  # within the other one
        RecordedRun("c", Path("c"), 7_393 * second, 7_400 * second, 1),
        RecordedRun("d", Path("d"), 7_400 * second, 8_000 * second, 1),
    ]
    assert pauses_between(runs) == [Pause(10 * second, 7_393 * second)]
    assert str(Pause(NOON_NS, NOON_NS + 7_383 * second)) == (
        "no recorder ran for 2 h 3 min, from 2026-11-21T12:00:00Z to 2026-11-21T14:03:03Z"
    )
    assert "for 1 d 2 h," in str(Pause(0, 94_000 * second))
    assert "for 1 min 5 s," in str(Pause(0, 65 * second))


async def test_the_commands_take_a_folder_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, first in (("one", 0), ("two", 40)):
        await write(tmp_path / "runs" / name / "samples.csv", batch_of(name, first))
        await write(tmp_path / "runs" / name / "samples.parquet", batch_of(name, first))
    runs = os.fspath(tmp_path / "runs")
    assert main(["verify", runs]) == 0
    told = capsys.readouterr().out
    assert "no problem; parts 2, runs 2" in told
    assert "pause: no recorder ran for 1.55 s" in told
    assert told.count("complete and unchanged") == 4
    assert main(["export", runs, os.fspath(tmp_path / "all.csv")]) == 0
    assert "pause: no recorder ran for 1.55 s" in capsys.readouterr().out
    assert flows(tmp_path / "all.csv") == flows(tmp_path / "runs")
    assert main(["plot", runs]) == 0


async def test_a_query_has_the_rows_of_all_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    for name, first, kinds in (("one", 0, ("parquet",)), ("two", 40, ("csv", "parquet"))):
        for kind in kinds:
            await write(tmp_path / "runs" / name / f"samples.{kind}", batch_of(name, first))
            runs = os.fspath(tmp_path / "runs")
            assert main(["query", runs, "SELECT count(*) FROM samples", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split()[1::2] == ["10", "20", "20"]
