"""The formats of one run are compared, value by value."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from penstock.cli import main
from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch
from penstock.record.format_comparison import compare_formats
from tests.python.record.test_damaged_reading import SINKS

pytest.importorskip("pyarrow")

NAMES = ["run.parquet", "run", "run.arrow", "run.csv", "run.jsonl", "run.sqlite"]
SCHEMA = RecordSchema((Field("Mass_Flow", "float", "SCCM"), Field("Gas", "text")))
VALUES = [1.5, math.nan, -0.0, None, 5e-324, 2.0**60, 7.0, 0.1, math.inf, -math.inf]


def batch(first: int, schema: RecordSchema = SCHEMA, **changes: float) -> SampleBatch:
    buffer = ColumnBuffer(schema)
    for number in range(first, first + 200):
        value = VALUES[number % len(VALUES)]
        fields = {} if value is None else {"Mass_Flow": value, "Gas": "" if number % 3 else "N2"}
        fields |= {name: value for name, value in changes.items() if number == 333}
        moment = number * 50_000_000
        buffer.append_row("d", "A", moment, moment + 5, moment, moment + 5, fields, "", None)
    return SampleBatch.from_buffer(buffer)


def write(path: Path, *batches: SampleBatch) -> None:
    async def run() -> None:
        async with SINKS[path.name](path, seals=False) as sink:
            for each in batches:
                await sink.write_batch(each)

    anyio.run(run)


def test_formats_of_the_same_rows_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wider = RecordSchema((*SCHEMA.fields, Field("Extra", "float")))
    for name in NAMES:
        write(tmp_path / name, batch(0), batch(200), batch(400, wider))
    assert compare_formats(tmp_path) == []
    assert main(["verify", str(tmp_path)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES[1:])
def test_another_value_is_told(tmp_path: Path, name: str) -> None:
    write(tmp_path / NAMES[0], batch(0), batch(200))
    write(tmp_path / name, batch(0), batch(200, Mass_Flow=8.25))
    assert compare_formats(tmp_path) == [
        f"Mass_Flow of row 334 is 8.25 in {tmp_path / name} and None in {tmp_path / NAMES[0]}"
    ]


def test_verify_tells_each_column_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run.csv", "run.sqlite"):
        write(tmp_path / name, batch(0))
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as database, database:
        database.execute("UPDATE samples SET Gas = 'Ar' WHERE rowid IN (2, 9)")
    assert main(["verify", str(tmp_path)]) == 8
    told = capsys.readouterr().out
    assert told.count("formats:") == 1
    assert "Gas of row 2 is 'Ar' in" in told
    assert "and 1 more of its values differ" in told


def test_rows_of_other_polls_are_told_and_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "run.parquet", batch(0), batch(200), batch(400))
    write(tmp_path / "run.csv", batch(0), batch(400))
    assert compare_formats(tmp_path) == [
        f"row 201 of {tmp_path / 'run.csv'} is of another poll than that of "
        f"{tmp_path / 'run.parquet'}"
    ]
