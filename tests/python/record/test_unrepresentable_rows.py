"""What a format cannot hold is refused before the disk is asked."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import anyio
import pytest

from penstock.record import (
    ColumnBuffer,
    Field,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    SinkSchemaError,
    SinkWriteError,
    SqliteSink,
    recover,
)
from tests.python.record.batches import MASS_FLOW
from tests.python.record.killed_recordings import flows

pytest.importorskip("pyarrow")


def test_a_device_whose_folder_cannot_be_named_is_refused_with_its_row(tmp_path: Path) -> None:
    async def run() -> None:
        async with ParquetSink(tmp_path / "run", partition_by=("device",)) as sink:
            await sink.write_batch(named("fuel"))
            await sink.flush()
            with pytest.raises(SinkSchemaError, match="too long for the name of a folder"):
                await sink.write_batch(named("x" * 300))
                await sink.flush()

    def named(device: str) -> SampleBatch:
        buffer = ColumnBuffer(MASS_FLOW)
        buffer.append_row(device, "A", 1, 1, 1, 1, {"Mass_Flow": 1.0}, "", None)
        return SampleBatch.from_buffer(buffer)

    with contextlib.suppress(SinkWriteError):
        anyio.run(run)
    recover(tmp_path / "run")
    assert flows(tmp_path / "run") == [1.0]


def test_a_device_that_the_metadata_name_is_refused_at_open(tmp_path: Path) -> None:
    schema = RecordSchema(MASS_FLOW.fields, json.dumps({"devices": {"fuel": {}, "x" * 300: {}}}))

    async def run() -> None:
        with pytest.raises(SinkSchemaError, match="too long for the name of a folder"):
            await ParquetSink(tmp_path / "run", partition_by=("device",)).open(schema)

    anyio.run(run)


def test_a_database_refuses_more_columns_than_a_table_takes_at_open(tmp_path: Path) -> None:
    schema = RecordSchema(tuple(Field(f"F{number}", "float") for number in range(2100)))

    async def run() -> None:
        with pytest.raises(SinkSchemaError, match="SQLite takes 2000 in a table"):
            await SqliteSink(tmp_path / "run.sqlite").open(schema)

    anyio.run(run)
