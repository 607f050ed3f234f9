from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import Field, JsonlSink, RecordSchema, SampleBatch, SinkExistsError, recover
from penstock.record._columns.row_text import json_bytes
from tests.python.record.batches import MASS_FLOW, batch_of, bounded, flow_batch, rows, typed_batch

pytestmark = pytest.mark.anyio


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_rows_are_between_head_and_end(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with JsonlSink(path) as sink:
        await sink.open(MASS_FLOW, {"run_id": "r1"})
        assert len(lines(path)) == 1, "the head is there before the first row"
        await sink.write_batch(flow_batch(2))
        await sink.write_batch(flow_batch(1, first=2))
        sink.add_metadata({"summary": {"errors": 0}})
    head, one, two, three, end = lines(path)
    assert head["penstock"]["recording"] == {"rate_hz": 20, "run_id": "r1"}
    assert {"name": "Mass_Flow", "unit": "SCCM", "kind": "float"} in head["penstock"]["columns"]
    assert [row["Mass_Flow"] for row in (one, two, three)] == [0.0, 1.0, 2.0]
    assert one["t_utc"] == "2026-11-21T12:00:00.004123000Z"
    assert end["penstock"] == {"rows": 3, "summary": {"errors": 0}}


@bounded
@given(st.lists(rows, min_size=1, max_size=12))
def test_values_survive_any_json_reader(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    read = [json.loads(line) for line in json_bytes(batch, 0, len(batch)).split(b"\n")[:-1]]
    for row, flow in zip(read, batch.column("Mass_Flow"), strict=True):
        assert row["Mass_Flow"] == (None if flow is None or not math.isfinite(flow) else flow)
    assert [row["Gas"] for row in read] == batch.column("Gas")


def test_every_kind_is_written() -> None:
    batch = typed_batch()
    first, *_ = [json.loads(line) for line in json_bytes(batch, 0, len(batch)).splitlines()]
    assert first["Open"] is True
    assert first["Calibrated"] == "2026-11-21T12:00:00.250000000Z"


async def test_append_continues_without_the_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with JsonlSink(path) as sink:
        await sink.write_batch(flow_batch(3))
    with path.open("ab") as file:
        file.write(b'{"device": "fu')
    with pytest.raises(SinkExistsError):
        await JsonlSink(path).open()
    async with JsonlSink(path, append=True) as sink:
        await sink.write_batch(flow_batch(2, first=3))
    flows = [line["Mass_Flow"] for line in lines(path) if "Mass_Flow" in line]
    assert flows == [0.0, 1.0, 2.0, 3.0, 4.0]


async def test_append_of_other_units_begins_a_part(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with JsonlSink(path) as sink:
        await sink.write_batch(flow_batch(3))
    async with JsonlSink(path, append=True) as sink:
        await sink.write_batch(flow_batch(2, schema=litres))
    assert sorted(p.name for p in tmp_path.glob("*.jsonl")) == ["run.jsonl", "run.part2.jsonl"]
    assert lines(path)[-1]["penstock"]["continued_in"] == "run.part2.jsonl"


async def test_a_file_is_rotated_by_its_size(tmp_path: Path) -> None:
    async with JsonlSink(tmp_path / "run.jsonl", rotate_bytes=2000, loss_rows=0) as sink:
        for start in range(0, 100, 10):
            await sink.write_batch(flow_batch(10, first=start))
    assert len(sink.paths) > 3
    flows = [line["Mass_Flow"] for p in sink.paths for line in lines(p) if "Mass_Flow" in line]
    assert flows == [float(n) for n in range(100)]


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole = b'{"penstock": {}}\n{"a": "\\""}\n{"b": 1}\n'
    path.write_bytes(whole + b'{"c')
    assert recover(path).bytes_cut == 3
    assert path.read_bytes() == whole
    assert (tmp_path / "run.jsonl.torn").read_bytes() == b'{"c'


async def test_a_recording_without_samples_has_its_head(tmp_path: Path) -> None:
    async with JsonlSink(tmp_path / "run.jsonl") as sink:
        await sink.write_batch(SampleBatch.empty(MASS_FLOW))
    assert "columns" in lines(tmp_path / "run.jsonl")[0]["penstock"]
