"""Recordings on disk on a board: each row once, also while they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet as pq
import pytest

import penstock.record
from penstock.dash import Board, follow
from penstock.dash._stored import StoredRows
from penstock.record import (
    CsvSink,
    JsonlSink,
    ParquetSink,
    RecordError,
    RecordSchema,
    SampleBatch,
    SqliteSink,
)
from tests.python.dash.tables import FIELDS, batch, sample, wave

pytestmark = pytest.mark.anyio

SINKS: dict[str, Callable[[Path], Any]] = {
    "csv": lambda path: CsvSink(path / "run.csv", loss_rows=0),
    "jsonl": lambda path: JsonlSink(path / "run.jsonl", loss_rows=0),
    "sqlite": lambda path: SqliteSink(path / "run.sqlite", loss_rows=0),
    "parquet": lambda path: ParquetSink(path / "run.parquet", loss_rows=0),
    "parts": lambda path: ParquetSink(path / "run", loss_rows=0, part_rows=50),
    "partitions": lambda path: ParquetSink(
        path / "run", loss_rows=0, part_rows=50, partition_by=("device",)
    ),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def reached(condition: Callable[[], object]) -> None:
    """Wait for what another task brings about; a board has no event to wait for."""
    with anyio.fail_after(30):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def counted(rows: StoredRows) -> dict[str, int]:
    board = Board("run")
    for table in rows.new_tables():
        board.add(table)
    return {name: device.history.rows for name, device in board.devices.items()}


@pytest.mark.parametrize("kind", SINKS)
async def test_each_row_of_a_growing_recording_is_given_once(kind: str, tmp_path: Path) -> None:
    sink = SINKS[kind](tmp_path)
    async with sink:
        await sink.write_batch(batch([*wave("argon", 30), *wave("oxygen", 10)]))
        rows = StoredRows(penstock.record.open(sink.path))
        assert counted(rows) == {"argon": 30, "oxygen": 10}
        assert not rows.changed()
        assert counted(rows) == {}
        await sink.write_batch(batch([*wave("oxygen", 25, begin=2), *wave("argon", 5, begin=2)]))
        assert rows.changed()
        assert counted(rows) == {"argon": 5, "oxygen": 25}
        await sink.write_batch(batch([*wave("argon", 60, begin=4), sample("helium", 9, 1.0)]))
    # The journal has become a part, and the parts of a single file were joined.
    assert counted(rows) == {"argon": 60, "helium": 1}
    assert counted(rows) == {}


async def test_each_row_of_two_recorders_in_one_folder_is_given_once(tmp_path: Path) -> None:
    def rows_of(run: str, seconds: float, device: str) -> SampleBatch:
        note = sample("", seconds, event="note", message=f"{run} at {seconds}")
        schema = RecordSchema(FIELDS, json.dumps({"run_id": run}))
        return SampleBatch.from_samples([note, *wave(device, 10, begin=seconds)], schema)

    def given(rows: StoredRows) -> list[str]:
        tables = [table.filter(table["event"].is_valid()) for table in rows.new_tables()]
        return [text for table in tables for text in table["message"].to_pylist()]

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        CsvSink(tmp_path / "one" / "run.csv", loss_rows=0) as one,
        CsvSink(tmp_path / "two" / "run.csv", loss_rows=0) as two,
    ):
        await one.write_batch(rows_of("one", 0, "argon"))
        await two.write_batch(rows_of("two", 1, "argon"))
        rows = StoredRows(penstock.record.open(tmp_path))
        assert given(rows) == ["one at 0", "two at 1"]
        await one.write_batch(rows_of("one", 2, "argon"))
        assert given(rows) == ["one at 2"]
        await two.write_batch(rows_of("two", 3, "argon"))
        assert counted(rows) == {"argon": 10}
        assert counted(rows) == {}


async def test_a_board_follows_a_recording(tmp_path: Path) -> None:
    board = Board("run")
    async with CsvSink(tmp_path / "run.csv", loss_rows=0) as sink:
        await sink.write_batch(batch(wave("argon", 10)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, board, penstock.record.open(sink.path))
            await reached(lambda: board.devices)
            assert board.devices["argon"].history.rows == 10
            await sink.write_batch(batch(wave("argon", 10, begin=1)))
            await reached(lambda: board.devices["argon"].history.rows == 20)
            await reached(lambda: board.live)
            tasks.cancel_scope.cancel()


async def test_a_recording_that_cannot_be_read_any_more_is_in_the_log(tmp_path: Path) -> None:
    board = Board("run")
    path = tmp_path / "run.parquet"
    async with ParquetSink(path) as sink:
        await sink.write_batch(batch(wave("argon", 10)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, board, penstock.record.open(path))
        await reached(lambda: board.devices)
        path.write_bytes(b"no parquet")
        await reached(lambda: board.events_since(0))
        tasks.cancel_scope.cancel()
    assert "run.parquet cannot be read" in board.events_since(0)[0].message
    assert board.devices["argon"].history.rows == 10


@pytest.mark.parametrize("kind", SINKS)
async def test_devices_are_in_the_order_of_the_configuration(kind: str, tmp_path: Path) -> None:
    described = {name: {"unit_id": "A"} for name in ("oxygen", "argon", "silent", "helium")}
    rows = [*wave("helium", 30), *wave("argon", 30), *wave("oxygen", 30)]
    async with SINKS[kind](tmp_path) as sink:
        await sink.write_batch(
            SampleBatch.from_samples(
                rows, RecordSchema(FIELDS, metadata=json.dumps({"devices": described}))
            )
        )
    board = Board("run")
    for table in StoredRows(penstock.record.open(sink.path)).new_tables():
        board.add(table)
    assert list(board.devices) == list(described)


@pytest.mark.parametrize("kind", SINKS)
async def test_a_recording_that_has_just_ended_is_finished(kind: str, tmp_path: Path) -> None:
    board = Board("run")
    async with SINKS[kind](tmp_path) as sink:
        await sink.write_batch(batch(wave("argon", 10)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, board, penstock.record.open(sink.path))
        await reached(lambda: board.devices)
        assert not board.live
        tasks.cancel_scope.cancel()


async def test_reading_a_finished_folder_with_a_database_does_not_make_it_live(
    tmp_path: Path,
) -> None:
    for kind in ("csv", "sqlite"):
        async with SINKS[kind](tmp_path) as sink:
            await sink.write_batch(batch(wave("argon", 10)))
    rows = StoredRows(penstock.record.open(tmp_path))
    for _ in range(2):  # SQLite leaves its index beside the database, and writes it when it reads
        counted(rows)
        assert not rows.changed()


@pytest.mark.parametrize("kind", SINKS)
async def test_a_board_is_live_as_long_as_the_recorder_has_the_files(
    kind: str, tmp_path: Path
) -> None:
    board = Board("run")
    async with anyio.create_task_group() as tasks:
        async with SINKS[kind](tmp_path) as sink:
            await sink.write_batch(batch(wave("argon", 10)))
            for file in tmp_path.rglob("*"):
                os.utime(file, (1e9, 1e9))  # a slow one, which has written nothing for years
            tasks.start_soon(follow, board, penstock.record.open(sink.path))
            await reached(lambda: board.devices)
            assert board.live
            await sink.write_batch(batch(wave("argon", 10, begin=1)))
        await reached(lambda: not board.live)
        assert board.devices["argon"].history.rows == 20
        tasks.cancel_scope.cancel()


async def test_a_recording_whose_lock_is_not_seen_is_live_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.record.recorder_lock._LOCKS", tmp_path / "no list of locks")
    board = Board("run")
    async with SINKS["csv"](tmp_path) as sink:
        await sink.write_batch(batch(wave("argon", 10)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, board, penstock.record.open(sink.path))
            await reached(lambda: board.devices)
            assert not board.live
            await sink.write_batch(batch(wave("argon", 10, begin=1)))
            await reached(lambda: board.live)
            tasks.cancel_scope.cancel()


def without_devices(path: Path) -> None:
    """What a flipped bit in the name of a column leaves."""
    table = pq.read_table(path)
    names = ["devicf" if name == "device" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), path)


async def test_a_part_without_a_column_of_recordings_is_left_out_and_told(tmp_path: Path) -> None:
    async with ParquetSink(tmp_path / "run", part_rows=10) as sink:
        for number in range(3):
            await sink.write_batch(batch(wave("argon", 10, begin=number)))
    parts = sorted((tmp_path / "run").glob("*.parquet"))
    without_devices(parts[1])
    board = Board("run")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, board, penstock.record.open(tmp_path / "run", strict=False))
        await reached(lambda: board.devices and board.events_seen)
        tasks.cancel_scope.cancel()
    assert board.devices["argon"].history.rows == 20
    (event,) = board.events_since(0)
    assert event.message == f"left out: {parts[1]} has no column device of a recording"
    for part in (parts[0], parts[2]):
        without_devices(part)
    with pytest.raises(RecordError, match=r"nothing of \S*run can be read: .* no column device of"):
        await follow(Board("run"), penstock.record.open(tmp_path / "run", strict=False))


async def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="does not exist"):
        penstock.record.open(tmp_path / "run.parquet")
