from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.record import (
    CsvSink,
    Field,
    JsonlSink,
    RecordSchema,
    SampleBatch,
    SinkError,
    SinkExistsError,
    SinkWriteError,
    SqliteSink,
)
from tests.python.record.batches import MASS_FLOW, flow_batch
from tests.python.record.child_program import printed_by
from tests.python.record.plain_rows import plain_csv

pytestmark = pytest.mark.anyio


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


async def test_every_batch_is_on_disk_when_write_batch_returns(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    async with CsvSink(path, loss_rows=0) as sink:
        await sink.write_batch(SampleBatch.empty(MASS_FLOW))
        assert path.read_bytes().count(b"\r\n") == 1
        await sink.write_batch(flow_batch(3))
        assert len(table(path)) == 3
        await sink.write_batch(flow_batch(500, first=3))
        assert [row["Mass_Flow"] for row in table(path)] == [str(n) for n in range(503)]


async def test_the_sidecar_tells_the_metadata_and_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    async with CsvSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(2))
        sidecar = json.loads((tmp_path / "run.csv.meta.json").read_text())
        assert sidecar["recording"] == {"rate_hz": 20}
        sink.add_metadata({"summary": {"samples_emitted": 2}})
    sidecar = json.loads((tmp_path / "run.csv.meta.json").read_text())
    assert sidecar["rows"] == 2
    assert sidecar["summary"] == {"samples_emitted": 2}
    assert {"name": "Mass_Flow", "unit": "SCCM", "kind": "float"} in sidecar["columns"]


async def test_an_existing_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("precious")
    with pytest.raises(SinkExistsError, match=r"run\.csv already exists.*overwrite=True") as caught:
        await CsvSink(path, loss_rows=0).open()
    assert isinstance(caught.value, FileExistsError)
    assert isinstance(caught.value, SinkError)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


async def test_an_existing_sidecar_is_refused_and_left_alone(tmp_path: Path) -> None:
    sidecar = tmp_path / "run.csv.meta.json"
    sidecar.write_text("precious")
    with pytest.raises(SinkExistsError, match=r"run\.csv\.meta\.json"):
        await CsvSink(tmp_path / "run.csv", loss_rows=0).open()
    assert sidecar.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [sidecar]


async def test_overwrite_replaces_the_file_when_data_come_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("old content, longer than what will come " * 100)
    async with CsvSink(path, overwrite=True, loss_rows=0):
        pass
    assert path.read_text().startswith("old content")
    async with CsvSink(path, overwrite=True, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(1))
    assert len(table(path)) == 1


async def test_a_sink_that_was_given_nothing_leaves_nothing(tmp_path: Path) -> None:
    async with CsvSink(tmp_path / "run.csv", loss_rows=0):
        assert (tmp_path / "run.csv").exists()
    assert list(tmp_path.iterdir()) == []


async def test_two_recorders_cannot_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    async with CsvSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(1))
        with pytest.raises(SinkWriteError, match="being recorded by another"):
            await CsvSink(path, overwrite=True, loss_rows=0).open()
    assert len(table(path)) == 1


@pytest.mark.parametrize("kind", [CsvSink, JsonlSink, SqliteSink])
async def test_a_file_that_is_removed_meanwhile_is_an_error(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "run.file"
    sink = kind(path, loss_rows=0)
    await sink.open()
    await sink.write_batch(flow_batch(1))
    path.unlink()
    with pytest.raises(SinkWriteError, match="removed while it was being recorded"):
        await sink.write_batch(flow_batch(1, first=1))
    with pytest.raises(SinkWriteError, match="removed while it was being recorded"):
        await sink.close()


async def test_a_file_that_is_moved_meanwhile_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    async with CsvSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(1))
        path.rename(tmp_path / "moved.csv")
        await sink.write_batch(flow_batch(1, first=1))
    assert [row["Mass_Flow"] for row in table(tmp_path / "moved.csv")] == ["0", "1"]


async def test_a_missing_folder_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SinkWriteError, match=r"nowhere/run\.csv: No such file.*create the folder"):
        await CsvSink(tmp_path / "nowhere" / "run.csv", loss_rows=0).open()


async def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkWriteError, match="not of a folder"):
        await CsvSink(tmp_path, overwrite=True, loss_rows=0).open()


async def test_an_unwritable_folder_is_named_with_the_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may write everywhere
    try:
        with pytest.raises(SinkWriteError, match="folder that you may write to"):
            await CsvSink(tmp_path / "run.csv", loss_rows=0).open()
    finally:
        os.seteuid(user)


async def test_a_full_device_is_one_clear_sentence() -> None:
    sink = CsvSink("/dev/full", overwrite=True, loss_rows=0)
    await sink.open()
    with pytest.raises(SinkWriteError, match=r"/dev/full: No space left.*free some space"):
        await sink.write_batch(flow_batch(1))
    await sink.close()


def test_a_full_disk_keeps_whole_lines(tmp_path: Path) -> None:
    # The limit makes the kernel accept part of a write and refuse the rest, like a full disk.
    program = """
        import anyio, resource, sys
        from penstock.record import CsvSink, SinkWriteError
        from tests.python.record.batches import flow_batch

        async def main():
            async with CsvSink(sys.argv[1], loss_rows=0) as sink:
                await sink.write_batch(flow_batch(10))
                resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
                try:
                    await sink.write_batch(flow_batch(100, first=10))
                except SinkWriteError as error:
                    print(error)

        anyio.run(main)
        """
    path = tmp_path / "run.csv"
    printed = printed_by(program, str(path))
    assert "run.csv: File too large" in printed
    assert "samples written so far are kept as whole lines" in printed
    data = path.read_bytes()
    assert data.endswith(b"\r\n")
    assert 3000 < len(data) <= 4000
    flows = [float(row["Mass_Flow"]) for row in table(path)]
    assert flows == [float(n) for n in range(len(flows))]
    assert len(flows) > 10
    assert json.loads((tmp_path / "run.csv.meta.json").read_text())["rows"] == len(flows)


async def test_a_new_field_goes_on_in_a_second_part(tmp_path: Path) -> None:
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float", "PSIA")))
    sink = CsvSink(tmp_path / "run.csv", loss_rows=0)
    async with sink:
        await sink.write_batch(flow_batch(2))
        await sink.write_batch(flow_batch(3, first=2, schema=wider))
        await sink.write_batch(flow_batch(1, first=5))
    assert sink.paths == (tmp_path / "run.csv", tmp_path / "run.part2.csv")
    first, second = table(sink.paths[0]), table(sink.paths[1])
    assert [row["Mass_Flow"] for row in first + second] == [str(n) for n in range(6)]
    assert "Abs_Press" not in first[0]
    assert second[0]["Abs_Press"] == ""
    meta = json.loads((tmp_path / "run.csv.meta.json").read_text())
    assert meta["continued_in"] == "run.part2.csv"
    assert meta["rows"] == 2
    assert json.loads((tmp_path / "run.part2.csv.meta.json").read_text())["rows"] == 4


async def test_a_field_that_changes_its_kind_or_unit_begins_a_part(tmp_path: Path) -> None:
    async with CsvSink(tmp_path / "run.csv", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(2))
        text = RecordSchema((Field("Mass_Flow", "text"),))
        await sink.write_batch(SampleBatch.empty(text))
        litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
        await sink.write_batch(flow_batch(3, first=2, schema=litres))
        assert [path.name for path in sink.paths] == ["run.csv", "run.part2.csv", "run.part3.csv"]
    assert len(table(tmp_path / "run.csv")) == 2
    assert len(table(tmp_path / "run.part2.csv")) == 0
    assert len(table(tmp_path / "run.part3.csv")) == 3
    units = json.loads((tmp_path / "run.part3.csv.meta.json").read_text())["columns"]
    assert next(column for column in units if column["name"] == "Mass_Flow")["unit"] == "SLPM"


async def test_a_second_part_that_exists_is_refused_and_the_first_is_complete(
    tmp_path: Path,
) -> None:
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float", "PSIA")))
    async with CsvSink(tmp_path / "run.csv", loss_rows=0) as sink:
        await sink.write_batch(flow_batch(2))
        (tmp_path / "run.part2.csv").write_text("precious")
        with pytest.raises(SinkExistsError, match=r"run\.part2\.csv already exists"):
            await sink.write_batch(flow_batch(3, first=2, schema=wider))
        with pytest.raises(SinkExistsError, match=r"run\.part2\.csv already exists"):
            await sink.write_batch(flow_batch(3, first=2, schema=wider))
    assert (tmp_path / "run.part2.csv").read_text() == "precious"
    assert [float(row["Mass_Flow"]) for row in table(tmp_path / "run.csv")] == [0.0, 1.0]


async def test_sample_objects_are_written_too(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    async with CsvSink(path, loss_rows=0) as sink:
        await sink.write_many(list(flow_batch(3)))
        await sink.write_many(list(flow_batch(2, first=3)))
    assert path.read_bytes().split(b"\r\n", 1)[1] == plain_csv(flow_batch(5))


async def test_append_leaves_the_sidecar_of_an_earlier_run_with_its_run_id(tmp_path: Path) -> None:
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float", "PSIA")))
    for run, schema in (("r1", MASS_FLOW), ("r2", wider)):
        async with CsvSink(tmp_path / "run.csv", append=True) as sink:
            await sink.open(schema, {"run_id": run})
            await sink.write_batch(flow_batch(2, schema=schema))
    first, second = (
        json.loads((tmp_path / f"{name}.meta.json").read_bytes())
        for name in ("run.csv", "run.part2.csv")
    )
    assert (first["recording"]["run_id"], second["recording"]["run_id"]) == ("r1", "r2")
    assert len(second["columns"]) == len(first["columns"]) + 1
    assert first["continued_in"] == "run.part2.csv"
    assert first["rows"] == second["rows"] == 2


async def test_a_sink_that_is_not_open_says_so(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "run.csv", loss_rows=0)
    with pytest.raises(SinkWriteError, match="not open"):
        await sink.write_batch(flow_batch(1))
    async with sink:
        await sink.write_batch(flow_batch(1))
    with pytest.raises(SinkWriteError, match="closed"):
        await sink.write_batch(flow_batch(1))


async def test_csv_needs_no_pyarrow(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["pyarrow"] = None
        import anyio
        from penstock.record import CsvSink, ParquetSink, SinkDependencyError
        from tests.python.record.batches import flow_batch

        async def main():
            async with CsvSink(sys.argv[1], loss_rows=0) as sink:
                await sink.write_batch(flow_batch(1000))
            try:
                await ParquetSink(sys.argv[1] + ".parquet", loss_rows=0).open()
            except SinkDependencyError as error:
                print(error)

        anyio.run(main)
        """
    path = tmp_path / "run.csv"
    assert "pip install 'penstock[parquet]'" in printed_by(program, str(path))
    assert len(table(path)) == 1000
    assert not (tmp_path / "run.csv.parquet").exists()
