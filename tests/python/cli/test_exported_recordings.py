"""``export``: the tables that it writes from recorded files."""

from __future__ import annotations

import json
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import penstock.record
from penstock.cli._stored.export_command import Resampler, resample
from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch
from penstock.record.schema import LEADING_COLUMNS
from penstock.record.sink_choice import sink_for
from tests.python.cli.made_recordings import changing_recording, output, record_into

READERS: dict[str, Any] = {
    ".parquet": pq.read_table,
    ".csv": pyarrow.csv.read_csv,
    ".arrow": lambda path: pyarrow.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".jsonl"])
def test_every_format_has_the_same_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    record_into(tmp_path)
    out = tmp_path / f"out{suffix}"
    code, text, _ = output(capsys, "export", tmp_path / "run.csv", out)
    assert (code, text) == (0, f"wrote {out}: 200 rows\n")
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        flows = [row["Mass_Flow"] for row in rows]
    else:
        flows = READERS[suffix](out)["Mass_Flow"].to_pylist()
    assert flows == [60.0 * count for count in range(100) for _ in range(2)]


def test_an_export_at_steps_has_a_row_for_each_device_and_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    out = tmp_path / "steps.parquet"
    assert output(capsys, "export", tmp_path / "run.parquet", out, "--every", "2")[0] == 0
    table = pq.read_table(out)
    steps = table["t_utc"].cast(pa.int64()).to_pylist()
    assert all(step % 2_000_000_000 == 0 for step in steps)
    assert steps == sorted(steps)
    fuel = table.filter(pa.compute.equal(table["device"], "fuel"))["Mass_Flow"].to_pylist()
    whole = pq.read_table(tmp_path / "run.parquet")
    assert sum(fuel) / len(fuel) == pytest.approx(
        sum(whole["Mass_Flow"].to_pylist()) / len(whole), rel=0.2
    )
    assert output(
        capsys, "export", tmp_path / "run.parquet", out, "--every", "2", "--method", "max",
        "--overwrite",
    )[0] == 0  # fmt: skip
    assert max(pq.read_table(out)["Mass_Flow"].to_pylist()) == 60.0 * 99


def test_an_export_converts_a_unit_and_says_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    out = tmp_path / "converted.parquet"
    arguments = ["--unit", "Mass_Flow=NLPM", "--standard", "25C,14.696psia"]
    code, text, _ = output(capsys, "export", tmp_path / "run.parquet", out, *arguments)
    assert code == 0
    assert "Mass_Flow: SCCM to NLPM, factor 0.00091615" in text
    table = pq.read_table(out)
    assert table.schema.field("Mass_Flow").metadata == {b"unit": b"NLPM"}
    assert b"25C,101.325kPa" in table.schema.metadata[b"penstock.converted"]
    assert max(table["Mass_Flow"].to_pylist()) == pytest.approx(99 * 60 * 0.000916152782, rel=1e-8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--unit", "Mass_Flow=NLPM"], "needs the standard conditions of both"),
        (["--unit", "Mass_Flow=PSIA"], "SCCM cannot be converted to PSIA"),
        (["--unit", "Volume=SLPM"], "has no number column Volume; it has Mass_Flow"),
        (["--unit", "Mass_Flow"], "is not a conversion"),
        (["--unit", "Mass_Flow=SLPM", "--standard", "warm"], "'warm' is not a pair of"),
    ],
)
def test_an_export_that_is_not_possible_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    record_into(tmp_path)
    out = tmp_path / "out.csv"
    code, _, err = output(capsys, "export", tmp_path / "run.parquet", out, *arguments)
    assert code == 2
    assert words in err
    assert not out.exists()


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl", "run.sqlite"])
def test_devices_with_different_units_are_converted_each_by_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    record_into(tmp_path, units=("SCCM", "SLPM"))
    out = tmp_path / "converted.parquet"
    code, text, _ = output(capsys, "export", tmp_path / name, out, "--unit", "Mass_Flow=SLPM")
    assert code == 0
    assert "Mass_Flow: SCCM to SLPM, factor 0.001; SLPM to SLPM, factor 1\n" in text
    rows = pq.read_table(out).select(["device", "Mass_Flow"]).to_pylist()
    assert [row["Mass_Flow"] for row in rows if row["device"] == "fuel"] == pytest.approx(
        [0.06 * count for count in range(100)]
    )
    assert [row["Mass_Flow"] for row in rows if row["device"] == "air"] == pytest.approx(
        [60.0 * count for count in range(100)]
    )


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl", "run.sqlite"])
def test_two_units_of_a_device_are_not_exported_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    record_into(tmp_path, new_unit="SLPM")
    out = tmp_path / "out.parquet"
    code, text, _ = output(capsys, "export", tmp_path / name, out)
    assert code == 0
    assert "Mass_Flow: its unit changes, so SCCM, SLPM have a column each" in text
    table = pq.read_table(out)
    columns = [table[f"Mass_Flow [{unit}]"].to_pylist() for unit in ("SCCM", "SLPM")]
    assert "Mass_Flow" not in table.column_names
    assert table.schema.field("Mass_Flow [SLPM]").metadata == {b"unit": b"SLPM"}
    assert sum(column.count(None) for column in columns) >= len(table)
    assert max(value for value in columns[1] if value is not None) == 99 * 60.0
    again = ["--overwrite", "--unit", "Mass_Flow=SLPM"]
    assert output(capsys, "export", tmp_path / name, out, *again)[0] == 0
    flows = [row["Mass_Flow"] for row in pq.read_table(out).to_pylist() if row["device"] == "fuel"]
    assert max(flow for flow in flows[:50] if flow is not None) < 3
    assert flows[-1] == 60.0 * 99


def test_a_server_is_neither_recovered_nor_exported_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = "postgresql://me@localhost:1/gone"
    code, _, err = output(capsys, "recover", server)
    assert (code, "needs no recovery" in err) == (2, True)
    code, _, err = output(capsys, "export", tmp_path / "run.csv", server)
    assert (code, "is written to a file" in err) == (2, True)


def test_an_export_replaces_nothing_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    (tmp_path / "out.csv").write_text("precious")
    code, _, err = output(capsys, "export", tmp_path / "run.parquet", tmp_path / "out.csv")
    assert (code, "add --overwrite" in err) == (5, True)
    assert (tmp_path / "out.csv").read_text() == "precious"
    code, _, err = output(capsys, "export", tmp_path / "run.parquet", tmp_path / "out.txt")
    assert (code, "suffix must be one of .csv" in err) == (2, True)


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.sqlite", "run.jsonl", "run"])
def test_a_recording_whose_fields_change_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = changing_recording(tmp_path / name)
    out = tmp_path / "out.parquet"
    assert output(capsys, "export", path, out)[0] == 0
    table = pq.read_table(out)
    assert len(table) == 40
    assert table["F"].to_pylist()[::20] == ["1.5", "OVER"]
    assert table["Count"].to_pylist()[::20] == [0.0, 0.5]


def test_whole_numbers_are_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changing_recording(tmp_path / "run.parquet")
    for method, expected in (("mean", 4.5), ("min", 0), ("max", 9)):
        out = tmp_path / f"{method}.parquet"
        assert output(capsys, "export", path, out, "--every", "10", "--method", method)[0] == 0
        assert pq.read_table(out)["Count"].to_pylist()[0] == expected


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_text_export_is_a_recording_with_its_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    record_into(tmp_path)
    out = tmp_path / f"litres{suffix}"
    options = ["--unit", "Mass_Flow=SLPM"]
    assert output(capsys, "export", tmp_path / "run.parquet", out, *options)[0] == 0
    again = penstock.record.open(out)
    assert again.units()["Mass_Flow"] == "SLPM"
    assert again.metadata == penstock.record.open(tmp_path / "run.parquet").metadata
    beside = json.loads((tmp_path / f"litres{suffix}.meta.json").read_bytes())
    assert beside["converted"] == {"Mass_Flow": "SCCM to SLPM, factor 0.001"}
    assert output(capsys, "verify", out)[0] == 0
    back = tmp_path / "back.csv"
    assert output(capsys, "export", out, back, "--unit", "Mass_Flow=SCCM")[0] == 0
    flows = penstock.record.open(back).to_arrow()["Mass_Flow"].to_pylist()
    assert flows == pytest.approx([60.0 * count for count in range(100) for _ in range(2)])
    code, _, err = output(capsys, "export", tmp_path / "run.parquet", out)
    assert (code, "already exists" in err) == (5, True)


def test_a_csv_export_is_written_as_the_sink_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    out = tmp_path / "out.csv"
    assert output(capsys, "export", tmp_path / "run.csv", out)[0] == 0
    assert out.read_bytes() == (tmp_path / "run.csv").read_bytes()


def test_an_export_takes_the_rows_and_columns_that_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changing_recording(tmp_path / "run.csv")
    out = tmp_path / "some.csv"
    chosen = ["--device", "d", "--field", "Count", "--field", "New"]
    chosen += ["--from", "1970-01-01T00:00:08Z", "--to", "1970-01-01T00:00:12Z", "--header-units"]
    assert output(capsys, "export", path, out, *chosen)[0] == 0
    table = penstock.record.open(out).to_arrow()
    assert table["device"].to_pylist() == ["d"] * 4
    assert table["Count"].to_pylist() == [8, 9, 0.5, 0.5]
    assert table["New"].to_pylist() == [None, None, 1, 1]
    assert "F" not in table.column_names
    code, _, err = output(capsys, "export", path, tmp_path / "none.csv", "--field", "Volume")
    assert (code, "run.csv has no column Volume; it has F, Count" in err) == (2, True)
    assert not (tmp_path / "none.csv").exists()


def test_a_header_names_units_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    out = tmp_path / "out.csv"
    assert output(capsys, "export", tmp_path / "run.parquet", out, "--header-units")[0] == 0
    assert b",Mass_Flow [SCCM]," in out.read_bytes().partition(b"\r\n")[0]
    assert penstock.record.open(out).units()["Mass_Flow [SCCM]"] == "SCCM"
    assert output(capsys, "verify", out)[0] == 0


def clock_was_set(path: Path) -> Path:
    """A recording around the end of summer time, during which the clock was set back by an hour."""
    begin = 1_792_889_998_500_000_000  # 2026-10-25T00:59:58.5Z

    async def write() -> None:
        buffer = ColumnBuffer(RecordSchema((Field("Flow", "float", "SCCM"),), '{"boot_id": "b"}'))
        for number in range(8):
            t = begin + number * 500_000_000
            wall = t if number < 6 else t - 3_600_000_000_000
            buffer.append_row("d", "A", wall, wall, t - begin, t - begin, {"Flow": 1.0}, "", None)
        async with sink_for(path) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(write)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".xlsx", ".nc"])
def test_an_export_tells_elapsed_times_by_the_steady_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    path, out = clock_was_set(tmp_path / "run.csv"), tmp_path / f"out{suffix}"
    code, _, err = output(capsys, "export", path, out, "--time", "elapsed")
    assert (code, err) == (0, "")
    if suffix in (".xlsx", ".nc"):
        return
    recording = penstock.record.open(out)
    table = recording.to_arrow()
    assert table["elapsed_s"].to_pylist() == [number / 2 for number in range(8)]
    assert recording.units()["elapsed_s"] == "s"
    assert table.column_names[:8] == [*LEADING_COLUMNS, "elapsed_s"]
    code, _, err = output(capsys, "export", out, tmp_path / "again.csv", "--time", "elapsed")
    assert (code, "has a column elapsed_s of its own" in err) == (2, True)


def test_an_export_tells_local_times_with_their_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = clock_was_set(tmp_path / "run.parquet"), tmp_path / "out.csv"
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert output(capsys, "export", path, out, "--time", "local")[0] == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    found = penstock.record.open(out).to_arrow()["t_local"].to_pylist()
    assert found == [
        *(f"2026-10-25T02:59:{second}00000000+02:00" for second in ("58.5", "59.0", "59.5")),
        *(f"2026-10-25T02:00:{second}00000000+01:00" for second in ("00.0", "00.5", "01.0")),
        *(f"2026-10-25T02:00:{second}00000000+02:00" for second in ("01.5", "02.0")),
    ]


@pytest.mark.parametrize("options", [["--every", "1"], ["--wide"], ["--wide", "--every", "1"]])
def test_rows_at_steps_tell_their_times_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    record_into(tmp_path)
    out = tmp_path / "out.parquet"
    chosen = ["--time", "elapsed", *options]
    assert output(capsys, "export", tmp_path / "run.csv", out, *chosen)[0] == 0
    table = pq.read_table(out)
    assert table.column_names[1 if "--wide" in options else 7] == "elapsed_s"
    stamps = table["t_utc"].cast(pa.int64()).to_pylist()
    assert table["elapsed_s"].to_pylist() == [(t - stamps[0]) / 1e9 for t in stamps]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow"])
def test_a_wide_export_has_a_column_for_each_device_and_quantity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    record_into(tmp_path, units=("SCCM", "SLPM"))
    out = tmp_path / f"wide{suffix}"
    options = ["--wide", "--every", "5", "--method", "max", "--field", "Mass_Flow"]
    options += ["--header-units"]
    code, text, _ = output(capsys, "export", tmp_path / "run.csv", out, *options)
    assert code == 0
    names = ["t_utc", "fuel Mass_Flow [SCCM]", "air Mass_Flow [SLPM]"]
    if suffix == ".csv":
        head, *lines = out.read_bytes().decode().split("\r\n")[:-1]
        assert head == ",".join(names)
        assert all(line.count(",") == 2 and "Z," in line for line in lines)
        assert lines[-1].split(",")[1:] == ["5940", "5940"]
        beside = json.loads((tmp_path / "wide.csv.meta.json").read_bytes())
        assert [column["unit"] for column in beside["columns"]] == [None, "SCCM", "SLPM"]
        rows = len(lines)
    elif suffix == ".jsonl":
        lines = out.read_text().splitlines()
        assert list(json.loads(lines[-1])) == names
        rows = len(lines)
    else:
        table = READERS[suffix](out)
        assert table.column_names == names
        assert table.schema.field(names[2]).metadata == {b"unit": b"SLPM"}
        rows = len(table)
    assert f"{rows} rows" in text
    assert rows in (2, 3)


def test_steps_do_not_end_where_pieces_do() -> None:
    begin = 1_790_000_000_000_000_000
    stamps = [begin + number * 10**9 for number in range(100)]
    table = pa.table(
        {
            "device": ["ab"[number % 2] for number in range(100)],
            "t_utc": pa.array(stamps).cast(pa.timestamp("ns", "UTC")),
            "F": [float(number) for number in range(100)],
        }
    )
    whole = resample(table, 7, "mean")
    for size in (1, 3, 10, 99):
        resampler = Resampler(7, "mean")
        pieces = [table.slice(first, size) for first in range(0, 100, size)]
        tables = [each for piece in pieces for each in resampler.of(piece)]
        found = pa.concat_tables([*tables, *resampler.rest()])
        keys = [("t_utc", "ascending"), ("device", "ascending")]
        assert found.sort_by(keys).equals(whole.sort_by(keys))


def test_a_workbook_has_units_and_times_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run.xlsx"
    record_into(tmp_path)
    if find_spec("xlsxwriter") is None:
        code, _, err = output(capsys, "export", tmp_path / "run.parquet", out)
        assert (code, "pip install 'penstock[xlsx]'" in err) == (7, True)
        assert not out.exists()
        return
    assert output(capsys, "export", tmp_path / "run.parquet", out, "--field", "Mass_Flow")[0] == 0
    with zipfile.ZipFile(out) as book:
        assert book.testzip() is None
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
        about = book.read("xl/worksheets/sheet2.xml").decode()
    assert "<t>t_utc [UTC]</t>" in sheet
    assert "<t>Mass_Flow [SCCM]</t>" in sheet
    assert sheet.count("<row ") == 201
    assert "<v>5940</v>" in sheet
    assert "<t>SCCM</t>" in about
    wide = tmp_path / "wide.xlsx"
    assert output(capsys, "export", tmp_path / "run.csv", wide, "--wide", "--every", "1")[0] == 0


@pytest.mark.parametrize("name", ["run.parquet", "run.csv"])
def test_a_recording_of_which_no_row_can_be_read_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    record_into(tmp_path)
    path = tmp_path / name
    data = path.read_bytes()
    if name == "run.parquet":
        group = pq.read_metadata(path).row_group(0)
        assert pq.read_metadata(path).num_row_groups == 1
        begin = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
        data = data[:begin] + bytes(64) + data[begin + 64 :]
    else:
        head, _, rows = data.partition(b"\r\n")
        data = head + b"\r\n" + rows.replace(b",", b";")
    path.write_bytes(data)
    out = tmp_path / "out.csv"
    code, text, err = output(capsys, "export", path, out)
    assert (code, text) == (5, "")
    assert f"nothing of {path} can be read: {path}, " in err
    assert not out.exists()


def test_a_recording_is_not_replaced_by_its_own_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    path = tmp_path / "run.csv"
    before = path.read_bytes()
    (tmp_path / "link.csv").hardlink_to(path)
    for source, out in ((path, path), (tmp_path, path), (path, tmp_path / "link.csv")):
        code, _, err = output(capsys, "export", source, out, "--overwrite", "--every", "1")
        assert (code, "is a file of the recording itself" in err) == (2, True)
        assert path.read_bytes() == before
