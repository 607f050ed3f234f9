"""``verify``, ``export`` and ``plot``: what is done with recorded files."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import penstock.record
from penstock.cli import main
from penstock.cli._recording.terminal_plot import dot_plot, sparkline
from penstock.cli._recordings.checks import check
from penstock.cli._recordings.reading import read_parts
from penstock.cli._recordings.resampling import Resampler, resample
from penstock.cli._recordings.time_axis import TimeAxis, date_text
from penstock.cli._recordings.units import UnitError, convert_factor, parse_conditions
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


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl", "run.sqlite", ""])
def test_a_whole_recording_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    record_into(tmp_path)
    code, out, err = output(capsys, "verify", tmp_path / name)
    assert (code, err) == (0, "")
    assert "no problem; parts 1, runs 1, events 0" in out
    assert "fuel: samples 100, failed 0, missed slots 0, gaps 0" in out


def test_slots_that_the_rows_report_as_missed_are_no_gap(tmp_path: Path) -> None:
    record_into(tmp_path, slow_at=30)
    findings = check(lambda: read_parts(tmp_path / "run.parquet"))
    assert findings.problems == 0
    assert findings.devices["fuel"].missed_slots > 0
    assert findings.devices["fuel"].samples + findings.devices["fuel"].missed_slots == 100


def test_rows_that_are_gone_are_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_into(tmp_path)
    rewritten(tmp_path / "run.parquet", [n for n in range(200) if not 50 <= n < 60])
    code, out, _ = output(capsys, "verify", "--json", tmp_path / "run.parquet")
    assert code == 8
    (found,) = json.loads(out).values()
    assert found["problems"] == 2
    for device in found["devices"].values():
        assert (device["gaps"], device["out_of_order"], device["duplicates"]) == (1, 0, 0)
        assert device["longest_gap_s"] == pytest.approx(0.6)


def test_duplicates_and_wrong_order_are_found(tmp_path: Path) -> None:
    record_into(tmp_path)
    order = [*range(100), 98, 99, *range(100, 150), 149, 140, *range(150, 200)]
    path = rewritten(tmp_path / "run.parquet", order)
    findings = check(lambda: read_parts(path))
    duplicates = sum(device.duplicates for device in findings.devices.values())
    out_of_order = sum(device.out_of_order for device in findings.devices.values())
    assert (duplicates, out_of_order) == (4, 0)


def test_a_file_without_the_columns_of_a_recording_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"device": ["a"], "flow": [1.0]}), tmp_path / "other.parquet")
    code, out, _ = output(capsys, "verify", tmp_path / "other.parquet")
    assert code == 8
    assert "other.parquet has no column unit_id, t_utc, t_mono_ns" in out


def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more")
    code, _, err = output(capsys, "verify", tmp_path / "torn.parquet")
    assert code == 5
    assert f"nothing of {tmp_path / 'torn.parquet'} can be read: " in err
    code, _, err = output(capsys, "verify", tmp_path / "nowhere")
    assert (code, "does not exist" in err) == (5, True)


def test_a_table_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    code, out, err = output(capsys, "verify", tmp_path / "run.sqlite", "--table", "kiln")
    assert (code, out) == (5, "")
    assert "has no recording kiln yet; check the path and --table" in err


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
        (["--unit", "Mass_Flow=SLPM", "--standard", "warm"], "'warm' are no standard conditions"),
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


def test_a_device_whose_unit_changes_is_two_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path, new_unit="SLPM")
    code, out, _ = output(capsys, "plot", tmp_path / "run.parquet", "--device", "fuel")
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("fuel")]
    assert titles == ["fuel Mass_Flow (SCCM)", "fuel Mass_Flow (SLPM)"]


def test_a_server_is_neither_recovered_nor_exported_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = "postgresql://me:secret@localhost:1/gone"
    code, _, err = output(capsys, "recover", server)
    assert (code, "needs no recovery" in err, "secret" in err) == (2, True, False)
    code, _, err = output(capsys, "export", tmp_path / "run.csv", server)
    assert (code, "is written to a file" in err, "secret" in err) == (2, True, False)


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


@pytest.mark.parametrize(
    ("source", "target", "standard", "to", "value", "expected"),
    [
        ("SCCM", "SLPM", None, None, 1500.0, 1.5),
        ("SLPM", "SLPM", "25C,14.696psia", "0C,1atm", 1.0, 273.15 / 298.15),
        ("NLPM", "SLPM", "25C,1atm", None, 1.0, 298.15 / 273.15),
        ("SLPM", "SCFM", None, None, 28.316846592, 1.0),
        ("CCM", "LPM", None, None, 100.0, 0.1),
        ("PSIA", "kPaA", None, None, 14.695948775, 101.325),
        ("bar", "kPa", None, None, 1.0, 100.0),
        ("`C", "`F", None, None, 100.0, 212.0),
        ("C", "K", None, None, 25.0, 298.15),
    ],
)
def test_units_convert(
    source: str, target: str, standard: str | None, to: str | None, value: float, expected: float
) -> None:
    factor, summand = convert_factor(
        source,
        target,
        standard=parse_conditions(standard) if standard else None,
        to=parse_conditions(to) if to else None,
    )
    assert value * factor + summand == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("source", "target"), [("PSIA", "PSIG"), ("SCCM", "CCM"), ("SCCM", "kPa"), ("x", "y")]
)
def test_units_of_different_quantities_do_not_convert(source: str, target: str) -> None:
    with pytest.raises(UnitError):
        convert_factor(source, target, standard=parse_conditions("25C,1atm"))


@given(st.text(max_size=30))
def test_any_text_is_conditions_or_refused(text: str) -> None:
    try:
        conditions = parse_conditions(text)
    except UnitError:
        return
    assert conditions.kelvins > 0
    assert conditions.pascals > 0


def test_a_plot_in_the_terminal_has_a_curve_for_each_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    code, out, _ = output(capsys, "plot", tmp_path / "run.parquet", "--device", "fuel")
    assert code == 0
    assert out.splitlines()[0] == "fuel Mass_Flow (SCCM)"
    assert "5940 ┤" in out
    assert "air" not in out
    code, _, err = output(capsys, "plot", tmp_path / "run.parquet", "--field", "Volume")
    assert (code, "has no column Volume" in err) == (2, True)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="matplotlib of the extra")
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_plot_is_written_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    pytest.importorskip("matplotlib")
    record_into(tmp_path)
    picture = tmp_path / f"run.{suffix}"
    assert output(capsys, "plot", tmp_path / "run.csv", "--out", picture)[0] == 0
    head = picture.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") or b"<?xml" in head
    assert output(capsys, "plot", tmp_path / "run.csv", "--out", picture)[0] == 5


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_any_device_name_stands_in_the_legend(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], suffix: str
) -> None:
    pytest.importorskip("matplotlib")
    record_into(tmp_path, names=("_fuel $x^$", "流量 🎈"))
    code, _, err = output(capfd, "plot", tmp_path / "run.csv", "--out", tmp_path / f"p.{suffix}")
    assert (code, err) == (0, "")
    if suffix == "svg":
        assert "<!-- _fuel $x^$ Mass_Flow -->" in (tmp_path / "p.svg").read_text()


def test_a_sparkline_has_a_bar_for_each_value() -> None:
    assert sparkline([0.0, 1.0, None, 7.0, float("nan")], 5) == "▁▂ █ "
    assert sparkline([3.0, 3.0], 10) == "▄▄"
    assert sparkline([None, None], 10) == "  "
    assert sparkline([1.0, 2.0, 3.0], 2) == "▁█"


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=50), st.integers(10, 100))
@example(values=[1.7976931348623157e308, -9.9792015476736e291], width=40)
def test_any_curve_fits_its_width(values: list[float], width: int) -> None:
    at = [float(n) for n in range(len(values))]
    lines = dot_plot(
        at,
        values,
        values,
        width=max(width, 40),
        height=4,
        title="t",
        between=(0.0, float(len(values))),
        ends=("0 s", f"{len(values)} s"),
    ).splitlines()
    assert lines[0] == "t"
    assert all(len(line) <= max(width, 40) for line in lines)


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


def test_devices_are_listed_in_the_order_of_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changing_recording(tmp_path / "run.parquet")
    _, out, _ = output(capsys, "verify", path)
    assert out.index("  d: ") < out.index("  b: ")


def test_what_recover_cuts_off_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_into(tmp_path)
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"fuel,A")
    code, out, _ = output(capsys, "recover", tmp_path / "run.csv")
    assert code == 0
    assert f"6 bytes of a torn end cut off and kept in {tmp_path / 'run.csv.torn'}" in out
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"x" * 100_000)
    code, _, err = output(capsys, "recover", tmp_path / "run.csv")
    assert (code, "add --force" in err) == (5, True)
    code, out, _ = output(capsys, "recover", "--json", "--force", tmp_path / "run.csv")
    assert json.loads(out)["kept_in"] == [f"{tmp_path / 'run.csv.torn2'}"]


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


def test_a_plot_shows_every_spike_and_names_its_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = RecordSchema((Field("Mass_Flow", "float", "SCCM"),))
    buffer = ColumnBuffer(schema)
    for number in range(40_000):
        moment = (1_790_000_000 + number) * 10**9
        row = {"Mass_Flow": 400.0 if number == 23_457 else 100.0 + number % 7}
        buffer.append_row("fuel", "A", moment, moment, moment, moment, row, "", None)

    async def run() -> None:
        async with sink_for(tmp_path / "run.csv") as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(run)
    code, out, _ = output(capsys, "plot", tmp_path / "run.csv", "--time", "utc")
    assert code == 0
    assert "\n400 ┤" in out
    assert "2026-09-21 14:13:20 UTC" in out.splitlines()[-1]
    before = output(capsys, "plot", tmp_path / "run.csv", "--to", "2026-09-21T20:00Z")[1]
    assert "\n106 ┤" in before
    code, _, err = output(capsys, "plot", tmp_path / "run.csv", "--from", "yesterday")
    assert (code, "'yesterday' is not a time; write it as 2026-" in err) == (2, True)


def test_a_field_that_becomes_a_text_is_plotted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changing_recording(tmp_path / "run.parquet")
    code, out, _ = output(capsys, "plot", path, "--field", "F", "--field", "New")
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith(("b ", "d "))]
    assert titles == ["b F (SCCM)", "d F (SCCM)", "b New", "d New"]


def test_a_picture_has_a_panel_for_each_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    record_into(tmp_path, new_unit="SLPM")
    sizes = []
    for number, device in enumerate((["--device", "fuel"], ["--to", "1970-01-01"])):
        picture = tmp_path / f"p{number}.svg"
        code, _, err = output(
            capsys, "plot", tmp_path / "run.parquet", "--out", picture, *device, "--time", "local"
        )
        sizes.append((code, err))
    assert sizes[0] == (0, "")
    text = (tmp_path / "p0.svg").read_text()
    assert all(f"<!-- {words} -->" in text for words in ("SCCM", "SLPM"))
    assert sizes[1][0] == 5
    assert "there is no sample to plot; check --field, --device, --from and --to" in sizes[1][1]


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("UTC", "local time, UTC"),
        ("Europe/Berlin", "local time, CET (UTC+01:00), later CEST (UTC+02:00)"),
        ("Asia/Kathmandu", "local time, UTC+05:45"),
    ],
)
def test_a_local_time_axis_names_its_zone(
    zone: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        begin, end = 1_774_700_000 * 10**9, 1_774_800_000 * 10**9  # 28 and 29 March 2026
        assert TimeAxis("local", begin, end).label() == words
        elapsed = TimeAxis("elapsed", begin, end)
        assert elapsed.unit == "h"
        assert date_text(begin) in elapsed.label()
        assert date_text(end) in elapsed.label()
    finally:
        monkeypatch.undo()
        time.tzset()


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
