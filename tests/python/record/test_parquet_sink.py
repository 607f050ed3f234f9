from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from penstock.record import (
    CsvSink,
    Field,
    InMemorySink,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    SinkExistsError,
    SinkWriteError,
    recover,
)
from tests.python.record.batches import MASS_FLOW, flow_batch, typed_batch
from tests.python.record.child_program import printed_by

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.anyio


def flows(path: Path) -> list[float]:
    table = pq.read_table(path)
    table.validate(full=True)
    return [float(v) for v in table["Mass_Flow"].to_pylist()]


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


async def test_a_closed_recording_is_one_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, loss_rows=0) as sink:
        for start in range(0, 1000, 100):
            await sink.write_batch(flow_batch(100, first=start))
        sink.add_metadata({"summary": {"samples_emitted": 1000}})
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "run.parquet.seals"]
    assert flows(path) == numbers(1000)
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 1
    assert file.schema_arrow.metadata[b"penstock"] == b'{"rate_hz": 20}'
    assert json.loads(file.metadata.metadata[b"penstock.summary"]) == {"samples_emitted": 1000}
    kept = InMemorySink()
    await kept.write_batch(flow_batch(1000))
    assert pq.read_table(path).equals(pq.read_table(path).cast(kept.to_arrow().schema))
    assert pq.read_table(path).to_pylist() == kept.to_arrow().to_pylist()


async def test_every_kind_of_field_comes_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    batch = typed_batch()
    async with ParquetSink(path, loss_rows=0) as sink:
        await sink.write_batch(batch)
    table = pq.read_table(path)
    assert table.schema.field("Open").type == pa.bool_()
    assert table.schema.field("Calibrated").type == pa.timestamp("ns", "UTC")
    assert table.to_pylist() == pa.Table.from_batches([batch.to_arrow()]).to_pylist()


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "brotli", "lz4", "none"])
async def test_every_compression_is_readable(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, compression=compression, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(10))
    assert flows(path) == numbers(10)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown compression 'zip': use one of zstd"):
        ParquetSink("run.parquet", compression="zip", loss_rows=0)  # type: ignore[arg-type]


async def test_a_large_recording_takes_few_bytes_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, loss_rows=0) as sink:
        for start in range(0, 100_000, 5_000):
            await sink.write_batch(flow_batch(5_000, first=start))
    assert path.stat().st_size / 100_000 <= 12
    assert pq.ParquetFile(path).num_row_groups == 1


async def test_a_growing_single_file_is_read_from_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, part_rows=100, loss_rows=0) as sink:
        for start in range(0, 1000, 50):
            await sink.write_batch(flow_batch(50, first=start))
            sealed = (start + 50) // 100 * 100
            # The first rows are sealed at once, for readers; then a part when it is full.
            assert flows(tmp_path / "run.parquet.parts") == numbers(max(50, sealed))
        assert not path.exists()
    assert pq.ParquetFile(path).num_row_groups == 1
    assert flows(path) == numbers(1000)


async def test_an_existing_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    path.write_text("precious")
    with pytest.raises(SinkExistsError, match=r"run\.parquet already exists.*overwrite=True"):
        await ParquetSink(path, loss_rows=0).open()
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


async def test_overwrite_replaces_the_file_when_data_come_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(500))
    async with ParquetSink(path, overwrite=True, loss_rows=0):
        pass
    assert flows(path) == numbers(500)
    async with ParquetSink(path, overwrite=True, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(5))
    assert flows(path) == numbers(5)


async def test_a_sink_that_was_given_nothing_leaves_nothing(tmp_path: Path) -> None:
    async with ParquetSink(tmp_path / "run.parquet", loss_rows=0):
        pass
    assert list(tmp_path.iterdir()) == []


async def test_a_recording_without_samples_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    async with ParquetSink(path, loss_rows=0) as sink:
        await sink.write_batch(SampleBatch.empty(MASS_FLOW))
    table = pq.read_table(path)
    assert table.num_rows == 0
    assert table.column_names == list(MASS_FLOW.names)


async def test_a_new_field_goes_on_in_a_second_part(tmp_path: Path) -> None:
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float", "PSIA")))
    async with ParquetSink(tmp_path / "run.parquet", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(2))
        await sink.write_batch(flow_batch(3, first=2, schema=wider))
        await sink.write_batch(flow_batch(1, first=5))
    assert sorted(p.name for p in tmp_path.glob("*.parquet")) == [
        "run.parquet",
        "run.part2.parquet",
    ]
    assert flows(sink.paths[0]) + flows(sink.paths[1]) == numbers(6)
    assert pq.read_table(sink.paths[1])["Abs_Press"].null_count == 4
    metadata = pq.read_metadata(sink.paths[0]).metadata
    assert json.loads(metadata[b"penstock.continued_in"]) == "run.part2.parquet"


async def test_a_second_part_that_exists_is_refused_and_the_first_is_complete(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.part2.parquet").write_text("precious")
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float", "PSIA")))
    async with ParquetSink(tmp_path / "run.parquet", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(2))
        with pytest.raises(SinkExistsError, match=r"run\.part2\.parquet already exists"):
            await sink.write_batch(flow_batch(3, first=2, schema=wider))
        with pytest.raises(SinkExistsError, match=r"run\.part2\.parquet already exists"):
            await sink.write_batch(flow_batch(3, first=2, schema=wider))
    assert (tmp_path / "run.part2.parquet").read_text() == "precious"
    assert flows(tmp_path / "run.parquet") == [0.0, 1.0]


async def test_each_device_keeps_its_unit_where_they_differ(tmp_path: Path) -> None:
    schema = RecordSchema(
        (Field("Mass_Flow", "float", None, (("fuel", "SCCM"), ("air", "SLPM"))),), "{}"
    )
    path = tmp_path / "run.parquet"
    async with (
        ParquetSink(path, loss_rows=0) as sink,
        CsvSink(tmp_path / "run.csv", loss_rows=0) as csv,
    ):
        await sink.write_batch(flow_batch(1, schema=schema))
        await csv.write_batch(flow_batch(1, schema=schema))
    units = {"fuel": "SCCM", "air": "SLPM"}
    field = pq.ParquetFile(path).schema_arrow.field("Mass_Flow")
    assert json.loads(field.metadata[b"units"]) == units
    described = json.loads((tmp_path / "run.csv.meta.json").read_text())["columns"]
    assert {"name": "Mass_Flow", "unit": None, "kind": "float", "units": units} in described


async def test_dictionaries_that_differ_from_batch_to_batch_are_united(tmp_path: Path) -> None:
    from tests.python.record.batches import THREE_FIELDS, batch_of

    def row(gas: str | None, error: str | None) -> dict[str, Any]:
        return {
            "device": f"device {gas}",
            "unit_id": None,
            "requested_utc_ns": 1,
            "received_utc_ns": 2,
            "requested_mono_ns": 1,
            "received_mono_ns": 2,
            "values": {} if gas is None else {"Gas": gas},
            "status": None,
            "error": error,
        }

    path = tmp_path / "run.parquet"
    gases = ["N2", "Ar", None, "He", "N2"]
    async with ParquetSink(path, loss_rows=0) as sink:
        for gas in gases:
            await sink.write_batch(batch_of([row(gas, "x" if gas is None else None)], THREE_FIELDS))
    table = pq.read_table(path)
    assert table["Gas"].to_pylist() == gases
    assert table["device"].to_pylist() == [f"device {gas}" for gas in gases]
    assert table["error"].to_pylist() == [None, None, "x", None, None]


def run_limited(tmp_path: Path, limit: int, code: str) -> str:
    """Run ``code`` with ``path`` and ``sink`` and no file longer than ``limit`` bytes."""
    program = (
        textwrap.dedent(
            """
        import anyio, resource, sys
        from pathlib import Path
        from penstock.record import ParquetSink, SinkWriteError
        from tests.python.record.batches import flow_batch

        async def main():
            path = Path(sys.argv[1])
            limit = int(sys.argv[2])
            sink = ParquetSink(path, loss_rows=0)
            await sink.open()
        """
        )
        + textwrap.indent(textwrap.dedent(code), "    ")
        + "\nanyio.run(main)\n"
    )
    return printed_by(program, str(tmp_path / "run.parquet"), str(limit))


FILL = """
sink.add_metadata({})
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
written = 0
try:
    while True:
        await sink.write_batch(flow_batch(100, first=written))
        written += 100
except SinkWriteError as error:
    print(written)
    print(error)
try:
    await sink.close()
except SinkWriteError as error:
    print(error)
"""


def test_a_full_disk_keeps_everything_that_was_flushed(tmp_path: Path) -> None:
    # The journal hits the limit; the part is a tenth of it and fits, the samples of the refused
    # batch included.
    out = run_limited(tmp_path, 60_000, FILL).splitlines()
    written = int(out[0])
    assert written > 100
    assert len(out) == 2
    assert "run.parquet" in out[1] and "File too large" in out[1]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["run.parquet", "run.parquet.seals"]
    assert flows(tmp_path / "run.parquet") == numbers(written + 100)


def test_a_disk_too_full_for_the_end_keeps_the_journal(tmp_path: Path) -> None:
    # Not even the part fits: what was flushed waits in the journal.
    out = run_limited(
        tmp_path,
        60_000,
        FILL.replace(
            "try:\n    await sink.close()",
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
            "try:\n    await sink.close()",
        ),
    ).splitlines()
    written = int(out[0])
    assert "the samples before wait in" in out[2]
    assert "penstock recover" in out[2]
    path = tmp_path / "run.parquet"
    assert not path.exists()
    recovery = recover(path)
    assert recovery.rows == written
    assert flows(path) == numbers(written)


async def test_after_a_write_error_no_more_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.parquet"
    sink = ParquetSink(path, loss_rows=0)
    await sink.open()
    await sink.write_batch(flow_batch(5))

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.record._files.files.os.write", refuse)
        with pytest.raises(SinkWriteError, match="No space left on device; free some space"):
            await sink.write_batch(flow_batch(5, first=5))
    with pytest.raises(SinkWriteError, match="No space left"):
        await sink.write_batch(flow_batch(5, first=10))
    await sink.close()
    assert flows(path) == numbers(10)
