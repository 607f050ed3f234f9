"""A folder of parts: what readers find in it while it grows, and how it is divided."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.record import (
    ArrowSink,
    Field,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    SinkExistsError,
    SinkWriteError,
    recover,
)
from tests.python.record.batches import MASS_FLOW, NOON_NS, flow_batch

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

pytestmark = pytest.mark.anyio


def flows(path: Path) -> list[float]:
    return sorted(float(v) for v in pq.read_table(path)["Mass_Flow"].to_pylist())


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


async def test_a_growing_folder_has_every_sealed_row_once(tmp_path: Path) -> None:
    path = tmp_path / "run"
    async with ParquetSink(path, seal_interval=0, part_rows=25, loss_rows=0) as sink:
        for start in range(0, 100, 10):
            await sink.write_batch(flow_batch(10, first=start))
            assert flows(path) == numbers(start + 10)
    assert flows(path) == numbers(100)
    assert sink.paths == (path,)
    assert [p.name for p in sorted(path.glob("*"))] == [
        ".penstock",
        "part-000001.parquet",
        "part-000002.parquet",
        "part-000003.parquet",
        "part-000004.parquet",
    ]
    listed = [
        json.loads(line) for line in (path / ".penstock/parts.jsonl").read_text().splitlines()
    ]
    assert [part["rows"] for part in listed] == [30, 30, 30, 10]
    assert listed[0]["files"] == ["part-000001.parquet"]
    assert listed[0]["first_unix_ns"] == NOON_NS + 4_123_000


async def test_a_part_is_final_with_its_bytes(tmp_path: Path) -> None:
    size = flow_batch(10).to_arrow().nbytes
    async with ParquetSink(tmp_path / "run", part_bytes=3 * size, loss_rows=0) as sink:
        for start in range(0, 100, 10):
            await sink.write_batch(flow_batch(10, first=start))
    listed = (tmp_path / "run" / ".penstock" / "parts.jsonl").read_text().splitlines()
    assert [json.loads(line)["rows"] for line in listed] == [30, 30, 30, 10]
    assert flows(tmp_path / "run") == numbers(100)


async def test_rows_of_a_last_part_that_cannot_be_written_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    rows = 70_000  # so many that no journal is written where the part is
    sink = ParquetSink(tmp_path / "run.parquet", loss_interval=None)
    await sink.open()
    await sink.write_batch(flow_batch(rows))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.record._parts.parts_file.write_part", refuse)
        with pytest.raises(SinkWriteError, match=r"all samples wait.*penstock recover"):
            await sink.close()
    assert recover(tmp_path / "run.parquet").rows == rows
    assert pq.read_metadata(tmp_path / "run.parquet").num_rows == rows


async def test_a_sink_that_refused_samples_does_not_say_that_it_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("penstock.record._parts.parts_file.write_part", refuse)
    sink = ParquetSink(tmp_path / "run.parquet", loss_rows=0)
    await sink.open()
    with pytest.raises(SinkWriteError, match="No space left"):
        await sink.write_batch(flow_batch(10))
    with pytest.raises(SinkWriteError, match="No space left"):
        await sink.write_batch(flow_batch(10, first=10))
    with pytest.raises(SinkWriteError, match=r"the samples before wait.*penstock recover"):
        await sink.close()
    assert recover(tmp_path / "run.parquet").rows == 10


async def test_nothing_waits_in_a_folder_that_was_removed(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "run", loss_rows=0)
    await sink.open()
    await sink.write_batch(flow_batch(10))
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(SinkWriteError) as caught:
        await sink.close()
    assert str(caught.value).endswith("/run: No such file or directory; create the folder first")


async def test_parts_are_divided_by_day_and_device(tmp_path: Path) -> None:
    path = tmp_path / "run"
    day_ns = 86_400_000_000_000
    table = pa.table(
        {
            "device": ["a/b", "..", "a/b", "fuel"],
            "t_utc": pa.array(
                [NOON_NS, NOON_NS, NOON_NS + day_ns, NOON_NS + day_ns], pa.timestamp("ns", "UTC")
            ),
            "Mass_Flow": [0.0, 1.0, 2.0, 3.0],
        }
    )
    async with ParquetSink(path, partition_by=("day", "device"), loss_rows=0) as sink:
        await sink.write_batch(table)
    files = sorted(str(p.relative_to(path).parent) for p in path.rglob("*.parquet"))
    assert files == [
        "day=2026-11-21/device=%2E%2E",
        "day=2026-11-21/device=a%2Fb",
        "day=2026-11-22/device=a%2Fb",
        "day=2026-11-22/device=fuel",
    ]
    found = ds.dataset(path, partitioning="hive").to_table().sort_by("Mass_Flow")
    assert found["device"].to_pylist() == ["a/b", "..", "a/b", "fuel"]
    assert flows(path) == numbers(4)


async def test_append_continues_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for run in range(3):
        async with ParquetSink(path, append=True, loss_rows=0) as sink:
            await sink.open(None, {"run_id": run})
            await sink.write_batch(flow_batch(10, first=10 * run))
    assert flows(path) == numbers(30)
    metadata = pq.read_schema(path / "part-000003.parquet").metadata
    assert json.loads(metadata[b"penstock"]) == {"rate_hz": 20, "run_id": 2}
    with pytest.raises(SinkExistsError, match="is a recording already"):
        await ParquetSink(path).open()


async def test_append_joins_rows_of_the_same_columns_to_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    for run in range(3):
        async with ParquetSink(path, append=True, loss_rows=0) as sink:
            await sink.write_batch(flow_batch(10, first=10 * run))
    assert flows(path) == numbers(30)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["run.parquet", "run.parquet.seals"]


async def test_append_of_other_columns_is_a_second_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with ParquetSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(10))
    async with ParquetSink(path, append=True, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(5, schema=litres))
    assert flows(path) == numbers(10)
    assert flows(tmp_path / "run.part2.parquet") == numbers(5)


async def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(SinkExistsError, match="is not empty"):
        await ParquetSink(tmp_path / "run").open()


async def test_overwrite_replaces_the_parts_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run"
    async with ParquetSink(path, part_rows=5, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(10))
    (path / "notes.txt").write_text("precious")
    async with ParquetSink(path, overwrite=True):
        pass
    assert len(list(path.glob("*.parquet"))) == 1
    async with ParquetSink(path, overwrite=True) as sink:
        await sink.write_batch(flow_batch(3))
    assert [p.name for p in path.glob("*.parquet")] == ["part-000001.parquet"]
    assert (path / "notes.txt").exists()


async def test_an_arrow_file_is_read_by_arrow(tmp_path: Path) -> None:
    path = tmp_path / "run.arrow"
    async with ArrowSink(path, part_rows=20, loss_rows=0) as sink:
        for start in range(0, 50, 10):
            await sink.write_batch(flow_batch(10, first=start))
    with pa.ipc.open_file(path) as reader:
        table = reader.read_all()
    assert table["Mass_Flow"].to_pylist() == numbers(50)
    assert table.schema.metadata[b"penstock"] == b'{"rate_hz": 20}'
    assert table.schema.field("Mass_Flow").metadata == {b"unit": b"SCCM"}
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "run.arrow.seals"]


async def test_an_arrow_batch_comes_back_with_its_units(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    batch = flow_batch(10).to_arrow()
    async with ParquetSink(path, loss_rows=0) as sink:
        await sink.write_batch(batch)
    assert pq.read_table(path).to_pylist() == batch.to_pylist()
    assert SampleBatch.from_arrow(batch).schema == MASS_FLOW


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"overwrite": True, "append": True}, "exclude each other"),
        ({"part_rows": 0}, "part_rows must be between"),
        ({"part_bytes": 0}, "part_bytes must be at least 1"),
        ({"partition_by": ("month",)}, "partition_by takes"),
        ({"loss_interval": -1}, "at least 0 seconds"),
        ({"loss_rows": -1}, "at least 0 rows"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ParquetSink("run", **options)


def test_a_single_file_is_not_divided() -> None:
    with pytest.raises(ValueError, match="partition_by needs a folder"):
        ParquetSink("run.parquet", partition_by=("day",))
