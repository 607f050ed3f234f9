"""An export of runs that overlap: the rows in the order of time, as ``to_arrow()`` has them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import anyio
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import ColumnBuffer, CsvSink, Field, ParquetSink, RecordSchema, SampleBatch

pa = pytest.importorskip("pyarrow")

from penstock.record.run_history import merged_by_time  # noqa: E402

_NOON = 1_795_262_400_000_000_000


def _table(*stamps: int | None, run: str) -> pa.Table:
    times = pa.array(stamps, pa.timestamp("ns", "UTC"))
    return pa.table({"t_utc": times, "run": [run] * len(stamps)})


def _order(*runs: list[pa.Table]) -> str:
    return "".join(pa.concat_tables(merged_by_time(runs))["run"].to_pylist())


def test_rows_of_two_runs_are_in_the_order_of_time() -> None:
    one = [_table(1, 3, run="a"), _table(5, 9, run="a")]
    other = [_table(2, 4, 6, 8, run="b")]
    assert _order(one, other) == "abababba"


def test_rows_of_one_time_are_in_the_order_of_the_runs() -> None:
    assert _order([_table(1, 2, run="a")], [_table(1, 2, run="b")]) == "abab"


def test_a_clock_that_was_set_back_changes_no_order_within_a_run() -> None:
    one = [_table(10, 5, 6, run="a"), _table(7, 20, run="a")]
    assert _order(one, [_table(8, 11, run="b")]) == "baaaaba"


def test_a_row_without_a_time_stays_where_it_is() -> None:
    assert _order([_table(None, 3, None, run="a")], [_table(2, 4, run="b")]) == "abaab"


def test_a_run_that_ends_first_does_not_end_the_others() -> None:
    empty: list[pa.Table] = []
    one, other = [_table(1, run="a")], [_table(run="b"), _table(2, 3, run="b")]
    assert _order(one, empty, other) == "abb"


def _batch(run: str, device: str, unit: str, first: int, rows: int) -> SampleBatch:
    about = {"rate_hz": 10, "run_id": run, "devices": {device: {"rate_hz": 10}}}
    buffer = ColumnBuffer(RecordSchema((Field("Flow", "float", unit),), json.dumps(about)))
    for number in range(first, first + rows):
        wall, clock = _NOON + number * 10**8, number * 10**8
        values = {"Flow": float(number)}
        buffer.append_row(device, "A", wall, wall + 1, clock, clock + 1, values, "", None)
    return SampleBatch.from_buffer(buffer)


async def _write(path: Path, *batches: SampleBatch) -> None:
    path.parent.mkdir(parents=True)
    async with (CsvSink if path.suffix == ".csv" else ParquetSink)(path) as sink:
        for batch in batches:
            await sink.write_batch(batch)


async def _history(folder: Path) -> None:
    # The unit changes within the first run, so its rows are of two schemas.
    first = (_batch("r1", "fuel", "SCCM", 0, 20), _batch("r1", "fuel", "SLPM", 20, 20))
    await _write(folder / "one/samples.parquet", *first)
    await _write(folder / "two/samples.csv", _batch("r2", "air", "SCCM", 10, 20))
    await _write(folder / "three/samples.csv", _batch("r3", "air", "SCCM", 100, 5))


@pytest.mark.parametrize("more", [[], ["--every", "0.5"]], ids=["all rows", "at steps"])
def test_an_export_of_runs_that_overlap_is_in_the_order_of_time(
    tmp_path: Path, more: list[str]
) -> None:
    anyio.run(_history, tmp_path / "lab")
    out = tmp_path / "lab.csv"
    assert main(["export", str(tmp_path / "lab"), str(out), *more]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    stamps = [row["t_utc"] for row in rows]
    assert stamps == sorted(stamps)
    if not more:
        table = penstock.record.open(tmp_path / "lab").to_arrow()
        assert [row["device"] for row in rows] == table["device"].to_pylist()
        assert [bool(row["Flow [SLPM]"]) for row in rows].count(True) == 20
