"""Recordings of two devices, as the tests of ``verify``, ``export`` and ``plot`` read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet as pq
import pytest

from penstock.cli import main
from penstock.record import (
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    SqliteSink,
    pipe,
    record,
)
from penstock.record.sink_choice import sink_for
from tests.python.record.instruments import DescribedBench, FakeField, FakeResult, HandClock, reply


def record_into(
    folder: Path,
    *,
    slow_at: int | None = None,
    rate_hz: float = 10.0,
    names: tuple[str, str] = ("fuel", "air"),
    units: tuple[str, str] = ("SCCM", "SCCM"),
    new_unit: str | None = None,
) -> None:
    """Two devices for 10 s; the flow is 60 times the number of the poll.

    At poll 50 both change to ``new_unit``, if there is one.
    """
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        asked = clock.now
        clock.now += 1_000_000
        if name == "fuel" and count == slow_at:
            clock.now += 500_000_000
        if count == 50 and new_unit is not None and name == names[0]:
            source.schemas = dict.fromkeys(names, in_new_unit)
            source.revision += 1
        return reply({"Mass_Flow": 60.0 * count}, asked_ns=asked)

    in_new_unit = [FakeField("Mass_Flow", "float", new_unit)]
    schemas = {
        name: [FakeField("Mass_Flow", "float", unit)]
        for name, unit in zip(names, units, strict=True)
    }
    source = DescribedBench([list(names)], answer, schemas=schemas)

    async def run() -> None:
        async with record(source, rate_hz=rate_hz, duration=10, clock=clock) as recording:
            await pipe(
                recording,
                CsvSink(folder / "run.csv"),
                ParquetSink(folder / "run.parquet"),
                JsonlSink(folder / "run.jsonl"),
                SqliteSink(folder / "run.sqlite"),
            )

    anyio.run(run)


def output(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rewritten(path: Path, rows: Sequence[int]) -> Path:
    """The rows of a Parquet file in another order, or some of them, without seals."""
    path.with_name(path.name + ".seals").unlink()
    table = pq.read_table(path)
    pq.write_table(table.take(list(rows)), path)
    return path


def changing_recording(path: Path) -> Path:
    """A recording in which a field becomes a text, another one a float, and a third one is new."""
    about = '{"rate_hz": 1.0, "devices": {"d": {"rate_hz": 1.0}, "b": {}}}'
    before = RecordSchema((Field("F", "float", "SCCM"), Field("Count", "int")), about)
    after = RecordSchema(
        (Field("F", "text"), Field("Count", "float"), Field("New", "float")), about
    )

    def rows(schema: RecordSchema, first: int, values: dict[str, Any]) -> SampleBatch:
        buffer = ColumnBuffer(schema)
        for number in range(first, first + 10):
            moment = number * 10**9
            row = {**values, "Count": number} if "Count" not in values else values
            for name in ("b", "d"):
                buffer.append_row(name, "A", moment, moment, moment, moment, row, "", None)
        return SampleBatch.from_buffer(buffer)

    async def run() -> None:
        async with sink_for(path) as sink:
            await sink.write_batch(rows(before, 0, {"F": 1.5}))
            await sink.write_batch(rows(after, 10, {"F": "OVER", "Count": 0.5, "New": 1.0}))

    anyio.run(run)
    return path
