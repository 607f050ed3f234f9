"""Recordings read back in one line, and by the programs that a laboratory has."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock.record
from penstock.record import (
    ArrowSink,
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordError,
    RecordSchema,
    Sample,
    SampleBatch,
    SqliteSink,
)
from penstock.record._columns.row_text import csv_bytes, csv_header
from penstock.record._sample import from_utc_ns
from tests.python.record.batches import MASS_FLOW, NOON_NS, flow_batch, typed_batch

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.anyio

KINDS: dict[str, Callable[..., Any]] = {
    "run.csv": CsvSink,
    "run.jsonl": JsonlSink,
    "run.sqlite": SqliteSink,
    "run.parquet": ParquetSink,
    "run.arrow": ArrowSink,
    "run": ParquetSink,
}
LITRES = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")), "{}")


@pytest.fixture(params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


async def record(path: Path, *batches: SampleBatch) -> None:
    async with KINDS[path.name](path) as sink:
        for batch in batches:
            await sink.write_batch(batch)


async def test_rows_metadata_and_units_come_back(tmp_path: Path, name: str) -> None:
    await record(tmp_path / name, flow_batch(500))
    recording = penstock.record.open(tmp_path / name)
    table = recording.to_arrow()
    expected = pa.Table.from_batches([flow_batch(500).to_arrow()])
    assert table.schema.names == expected.schema.names
    for column in table.schema.names:
        cells, wanted = table[column].to_pylist(), expected[column].to_pylist()
        if column != "status":  # CSV has no empty text beside null
            assert cells == wanted, column
    assert recording.metadata == {"rate_hz": 20}
    assert recording.units() == {"Mass_Flow": "SCCM"}


async def test_every_kind_of_field_comes_back(tmp_path: Path, name: str) -> None:
    batch = typed_batch()
    await record(tmp_path / name, batch)
    table = penstock.record.open(tmp_path / name).to_arrow()
    expected = pa.Table.from_batches([batch.to_arrow()])
    for field in batch.schema.fields:
        cells = [None if v == "" else v for v in table[field.name].to_pylist()]
        assert cells == expected[field.name].to_pylist(), field.name


async def test_an_event_of_the_whole_recording_comes_back(tmp_path: Path, name: str) -> None:
    noon = from_utc_ns(NOON_NS)
    event = Sample("", None, noon, 7, noon, noon, 0.0, {}, event="clock_step", message="set")
    batch = SampleBatch.from_samples([event], MASS_FLOW)
    await record(tmp_path / name, flow_batch(2), batch)
    table = penstock.record.open(tmp_path / name).to_arrow()
    assert table["device"].to_pylist() == ["fuel", "fuel", ""]
    assert table["event"].to_pylist() == [None, None, "clock_step"]


async def test_parts_are_one_recording(tmp_path: Path, name: str) -> None:
    await record(tmp_path / name, flow_batch(5), flow_batch(5, first=5, schema=LITRES))
    recording = penstock.record.open(tmp_path / name)
    assert recording.to_arrow()["Mass_Flow"].to_pylist() == numbers(10)
    units = [t.schema.field("Mass_Flow").metadata[b"unit"] for t in recording.tables()]
    assert units == [b"SCCM", b"SLPM"]


async def test_a_growing_recording_is_read_with_its_journal(tmp_path: Path, name: str) -> None:
    async with KINDS[name](tmp_path / name, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(5))
        await sink.write_batch(flow_batch(5, first=5))
        table = penstock.record.open(tmp_path / name).to_arrow()
        assert table["Mass_Flow"].to_pylist() == numbers(10)


async def test_divided_parts_have_their_device_again(tmp_path: Path) -> None:
    async with ParquetSink(tmp_path / "run", partition_by=("device", "day")) as sink:
        await sink.write_batch(flow_batch(5))
    table = penstock.record.open(tmp_path / "run").to_arrow()
    assert table["device"].to_pylist() == ["fuel"] * 5


async def test_numpy_pandas_and_pint(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pint")
    await record(tmp_path / "run", flow_batch(5))
    recording = penstock.record.open(tmp_path / "run")
    arrays = recording.to_numpy()
    assert arrays["Mass_Flow"].tolist() == numbers(5)
    assert str(arrays["t_utc"][0]) == "2026-11-21T12:00:00.004123000"
    frame = recording.to_pandas()
    assert frame["Mass_Flow"].sum() == 10
    assert str(frame["t_utc"].dtype) == "datetime64[ns, UTC]"
    flow = recording.quantity("Mass_Flow", "fuel").to("SLPM")
    assert flow.magnitude.tolist() == pytest.approx([n / 1000 for n in range(5)])
    with pytest.raises(RecordError, match="'Gas' of 'fuel' has no unit"):
        recording.quantity("Gas", "fuel")
    with pytest.raises(RecordError, match="has no field 'Mass Flow'"):
        recording.quantity("Mass Flow", "fuel")
    with pytest.raises(RecordError, match="has no 'Mass_Flow' of a device 'air'"):
        recording.quantity("Mass_Flow", "air")


async def test_a_quantity_has_the_unit_of_its_device(tmp_path: Path) -> None:
    pytest.importorskip("pint")
    air = ColumnBuffer(LITRES)
    air.append_row("air", "B", NOON_NS, NOON_NS, 0, 0, {"Mass_Flow": 2.0, "Gas": "N2"}, "", None)
    await record(tmp_path / "run", flow_batch(1, 5), SampleBatch.from_buffer(air))
    recording = penstock.record.open(tmp_path / "run")
    assert recording.quantity("Mass_Flow", "fuel").to("SCCM").magnitude.tolist() == [5.0]
    assert recording.quantity("Mass_Flow", "air").to("SLPM").magnitude.tolist() == [2.0]


async def test_a_quantity_has_one_unit(tmp_path: Path) -> None:
    pytest.importorskip("pint")
    await record(tmp_path / "run", flow_batch(1), flow_batch(1, 1, LITRES))
    with pytest.raises(RecordError, match=r"has more than one unit .*: SCCM, SLPM"):
        penstock.record.open(tmp_path / "run").quantity("Mass_Flow", "fuel")


async def test_other_programs_read_the_files(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    for name in KINDS:
        await record(tmp_path / name, flow_batch(300))
    total = sum(numbers(300))
    for file in ("run.parquet", "run"):
        assert pandas.read_parquet(tmp_path / file)["Mass_Flow"].sum() == total
    for file in ("run.parquet", "run/*.parquet"):
        assert polars.read_parquet(tmp_path / file)["Mass_Flow"].sum() == total
    assert pandas.read_feather(tmp_path / "run.arrow")["Mass_Flow"].sum() == total
    assert polars.read_ipc(tmp_path / "run.arrow")["Mass_Flow"].sum() == total
    csv = pandas.read_csv(tmp_path / "run.csv", parse_dates=["t_utc"])
    assert csv["Mass_Flow"].sum() == total
    assert str(csv["t_utc"][0]) == "2026-11-21 12:00:00.004123+00:00"
    assert polars.read_csv(tmp_path / "run.csv")["Mass_Flow"].sum() == total
    assert pandas.read_json(tmp_path / "run.jsonl", lines=True)["Mass_Flow"].sum() == total
    assert polars.read_ndjson(tmp_path / "run.jsonl")["Mass_Flow"].sum() == total
    for file in ("run.parquet", "run/*.parquet", "run.csv", "run.jsonl"):
        [(found,)] = duckdb.sql(f"SELECT sum(Mass_Flow) FROM '{tmp_path / file}'").fetchall()
        assert found == total, file


async def test_the_sqlite3_program_reads_the_tables(tmp_path: Path) -> None:
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("no sqlite3 program on this machine (Debian: apt-get install sqlite3)")
    await record(tmp_path / "run.sqlite", flow_batch(300))
    question = (
        "SELECT sum(Mass_Flow) FROM samples; SELECT min(t_utc) FROM samples_iso; "
        "SELECT name FROM penstock_parts; PRAGMA integrity_check"
    )
    shown = subprocess.run(
        [program, "-readonly", tmp_path / "run.sqlite", question], capture_output=True, text=True
    )
    assert (shown.stdout, shown.stderr) == (
        "44850.0\n2026-11-21T12:00:00.004123Z\nsamples\nok\n",
        "",
    )


async def test_a_folder_of_recordings_is_read_in_one_of_its_formats(tmp_path: Path) -> None:
    other = flow_batch(5, first=5, schema=LITRES)
    for name in ("run.csv", "run.jsonl"):
        await record(tmp_path / name, flow_batch(5), other)
    parts = list(penstock.record.open(tmp_path).parts())
    assert [part.path.name for part in parts] == ["run.csv", "run.part2.csv"]
    assert [part.units for part in parts] == [{"Mass_Flow": "SCCM"}, {"Mass_Flow": "SLPM"}]
    assert [part.metadata for part in parts] == [{"rate_hz": 20}] * 2
    async with ParquetSink(tmp_path / "run.parquet", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(12))
        table = penstock.record.open(tmp_path).to_arrow()
        assert table["Mass_Flow"].to_pylist() == numbers(12)


def test_csv_without_its_sidecar_has_the_types_of_a_recording(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_bytes(
        csv_header(MASS_FLOW.names) + csv_bytes(flow_batch(3), 0, 3) + b"fuel,A,torn"
    )
    table = penstock.record.open(tmp_path / "run.csv").to_arrow()
    expected = pa.Table.from_batches([flow_batch(3).to_arrow()])
    for name in ("device", "t_utc", "t_mono_ns", "Mass_Flow", "Gas"):
        assert table[name].to_pylist() == expected[name].to_pylist()


def test_what_is_no_recording_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    for file, text in (
        ("gone.csv", "does not exist"),
        ("notes.txt", "cannot tell the format"),
        ("empty", "has no .penstock"),
    ):
        with pytest.raises(RecordError, match=text):
            penstock.record.open(tmp_path / file)


def test_the_schema_of_a_batch_is_that_of_its_file() -> None:
    assert SampleBatch.from_arrow(flow_batch(2).to_arrow()).schema == MASS_FLOW


async def test_the_log_of_a_killed_sqlite_recorder_is_read(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    async with SqliteSink(tmp_path / "run.sqlite", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(5))
        for name in ("run.sqlite", "run.sqlite-wal", "run.sqlite-shm"):
            shutil.copy(tmp_path / name, killed)
    # As a kill in the middle of a commit leaves it.
    (killed / "run.sqlite-shm").write_bytes(b"")
    table = penstock.record.open(killed / "run.sqlite").to_arrow()
    assert table["Mass_Flow"].to_pylist() == numbers(5)
