"""Exports to netCDF and HDF5, read by other programs' libraries."""

from __future__ import annotations

import math
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.cli import main
from penstock.record import (
    ColumnBuffer,
    CsvSink,
    Field,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    exported_netcdf,
)
from tests.python.documentation.page_steps import DOCS, blocks
from tests.python.integration.daemons import program_or_skip
from tests.python.record.batches import NOON_NS, typed_batch

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("h5netcdf")
h5py = pytest.importorskip("h5py")

METADATA = (
    '{"run_id": "r1", "devices": {"fuel": {"serial": "00123", "calibrated": "2026-01-05", '
    '"rate_hz": 20.0, "units": {"Mass_Flow": "SCCM"}}}}'
)
SCHEMA = RecordSchema(
    (
        Field("Mass_Flow", "float", "SCCM"),
        Field("Temp", "float", None, (("fuel", "°C"), ("air/2", "°F"))),
        Field("Gas", "text"),
        Field("event", "text"),
        Field("message", "text"),
    ),
    METADATA,
)


def recording(path: Path) -> Path:
    """Two devices with a gap, an error, one moment twice, and an event."""
    buffer = ColumnBuffer(SCHEMA)
    for number in range(50):
        for device in ("fuel", "air/2"):
            values: dict[str, Any] = {"Mass_Flow": number / 4, "Temp": 20.0, "Gas": "N2 é"}
            error = None
            if number == 7:
                values, error = {}, "TimeoutError: no reply ✗"
            moment = NOON_NS + (number - number % 2) * 1_000_123
            buffer.append_row(device, "A", moment, moment, number, number, values, "HLD", error)
    event = {"event": "alarm", "message": "high"}
    buffer.append_row("fuel", None, NOON_NS, NOON_NS, 5, 5, {}, None, None)
    for name, text in event.items():
        column = buffer.fields[name]
        column.pad(len(buffer) - 1)
        column.append(text)

    async def write() -> None:
        async with ParquetSink(path, seals=False) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(write)
    return path


def exported(source: Path, suffix: str) -> Path:
    out = source.with_name(f"out{suffix}")
    assert main(["export", str(source), str(out)]) == 0
    return out


def text_of(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_h5py_reads_groups_with_units_and_calibration(tmp_path: Path) -> None:
    out = exported(recording(tmp_path / "run.parquet"), ".h5")
    with h5py.File(out) as file:
        assert text_of(file.attrs["Conventions"]) == "CF-1.8"
        assert sorted(name for name in file if isinstance(file[name], h5py.Group)) == [
            "air_2",
            "events",
            "fuel",
        ]
        fuel = file["fuel"]
        assert text_of(fuel.attrs["serial"]) == "00123"
        assert text_of(fuel.attrs["calibrated"]) == "2026-01-05"
        assert fuel.attrs["rate_hz"] == 20.0
        assert text_of(file["air_2"].attrs["device"]) == "air/2"
        flow = fuel["Mass_Flow"]
        assert (text_of(flow.attrs["units"]), text_of(flow.attrs["penstock_units"])) == (
            "cm3 min-1",
            "SCCM",
        )
        assert flow[:7].tolist() == [n / 4 for n in range(7)]
        assert math.isnan(flow[7])
        assert fuel["t_ns"][:4].tolist() == [NOON_NS, NOON_NS, *[NOON_NS + 2_000_246] * 2]
        assert fuel["time"][2] == (NOON_NS + 2_000_246) // 1000
        assert text_of(fuel["Temp"].attrs["units"]) == "degC"
        assert text_of(file["air_2/Temp"].attrs["units"]) == "degF"
        errors = [b"".join(row).rstrip(b"\0").decode() for row in fuel["error"][:]]
        assert errors == ["TimeoutError: no reply ✗" if n == 7 else "" for n in range(50)]
        assert b"".join(file["events/message"][0]).rstrip(b"\0") == b"high"


def test_no_string_of_hdf5_is_in_the_file(tmp_path: Path) -> None:
    """Octave reads no part of a file with one."""
    out = exported(recording(tmp_path / "run.parquet"), ".nc")
    found: list[str] = []

    def look(name: str, thing: Any) -> None:
        for key in thing.attrs:
            if h5py.check_string_dtype(thing.attrs.get_id(key).dtype) is not None and (
                thing.attrs.get_id(key).get_type().is_variable_str()
            ):
                found.append(f"{name}@{key}")
        if isinstance(thing, h5py.Dataset) and h5py.check_string_dtype(thing.dtype) is not None:
            found.extend([name] * thing.id.get_type().is_variable_str())

    with h5py.File(out) as file:
        file.visititems(look)
    assert found == []


def test_xarray_reads_what_was_recorded(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    out = exported(recording(tmp_path / "run.parquet"), ".nc")
    with xarray.open_dataset(out, group="fuel", engine="h5netcdf") as data:
        assert data.sizes["row"] == 50
        assert str(data["time"].values[2])[:26] == "2026-11-21T12:00:00.002000"
        assert data["Mass_Flow"].coords["time"] is not None
        assert data["Gas"].values[0].decode() == "N2 é"
        assert data["status"].values[0] == b"HLD"
        assert int(data["Mass_Flow"].isnull().sum()) == 1
        frame = data[["Mass_Flow", "t_ns"]].to_dataframe()
    assert frame["Mass_Flow"][49] == 49 / 4
    with xarray.open_datatree(out, engine="h5netcdf") as tree:
        assert sorted(tree.children) == ["air_2", "events", "fuel"]


def test_netcdf4_reads_the_times(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4")
    out = exported(recording(tmp_path / "run.parquet"), ".nc")
    with netcdf.Dataset(out) as file:
        time = file["fuel/time"]
        moment = netcdf.num2date(time[2], time.units, time.calendar)
        assert moment.isoformat() == "2026-11-21T12:00:00.002000"
        assert file["fuel/Mass_Flow"][:].mask.sum() == 1


def test_every_kind_of_column_is_written(tmp_path: Path) -> None:
    async def write() -> None:
        async with CsvSink(tmp_path / "run.csv", seals=False) as sink:
            await sink.write_batch(typed_batch())

    anyio.run(write)
    out = exported(tmp_path / "run.csv", ".nc")
    with h5py.File(out) as file:
        group = file["a"]
        assert group["Open"][:].tolist() == [1, -1, -1]
        assert text_of(group["Open"].attrs["flag_meanings"]) == "false true"
        assert group["Count"][:].tolist() == [2**53 + 1, -(2**63), 2]
        assert group["Calibrated"][:].tolist() == [1_795_262_400_250_000, -(2**63), -(2**63)]


def test_two_devices_of_one_group_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = ColumnBuffer(RecordSchema((Field("v", "float"),)))
    for device in ("a b", "a/b"):
        buffer.append_row(device, None, NOON_NS, NOON_NS, 1, 1, {"v": 1.0}, "", None)

    async def write() -> None:
        async with ParquetSink(tmp_path / "run.parquet", seals=False) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(write)
    source, out = tmp_path / "run.parquet", tmp_path / "out.nc"
    assert main(["export", str(source), str(out)]) == 5
    assert "would both be the group 'a_b'" in capsys.readouterr().err
    assert not out.exists()
    assert main(["export", str(source), str(out), "--device", "a/b"]) == 0


def test_a_wide_table_is_one_group(tmp_path: Path) -> None:
    source, out = recording(tmp_path / "run.parquet"), tmp_path / "wide.nc"
    wide = ["--wide", "--every", "0.02", "--field", "Mass_Flow"]
    assert main(["export", str(source), str(out), *wide]) == 0
    with h5py.File(out) as file:
        assert "time" in file
        assert [name for name in file if "fuel" in name]


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_a_program_of_the_page_reads_the_export(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xarray")
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(recording(tmp_path / "run.parquet")), f"run{suffix}"]) == 0
    (program,) = [
        block.text for block in blocks(DOCS / "netcdf.md") if f"run{suffix}" in block.text
    ]
    exec(compile(program, "docs/netcdf.md", "exec"), {})


@pytest.mark.parametrize("most_waiting", [0, 2000, 1 << 30])
def test_rows_that_wait_for_a_chunk_are_all_written_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_waiting: int
) -> None:
    """Two devices of unlike rates, with a text that becomes longer, in slices of any size."""
    monkeypatch.setattr(exported_netcdf, "_CHUNK_ROWS", 16)
    monkeypatch.setattr(exported_netcdf, "_SLICE_ROWS", 7)
    monkeypatch.setattr(exported_netcdf, "_MOST_WAITING", most_waiting)
    rows = 200
    table = pyarrow.table(
        {
            "device": ["fuel" if number % 5 else "air" for number in range(rows)],
            "t_utc": pyarrow.array(
                [NOON_NS + number for number in range(rows)], pyarrow.timestamp("ns", "UTC")
            ),
            "Mass_Flow": [float(number) for number in range(rows)],
            "Gas": ["x" * (number // 10) for number in range(rows)],
        }
    )
    with (tmp_path / "out.nc").open("w+b") as file:
        exported_netcdf.write_netcdf([table.slice(0, 90), table.slice(90)], table.schema, file)
    with h5py.File(tmp_path / "out.nc") as written:
        for device, numbers in (
            ("air", range(0, rows, 5)),
            ("fuel", [number for number in range(rows) if number % 5]),
        ):
            group = written[device]
            assert group["Mass_Flow"][:].tolist() == [float(number) for number in numbers]
            assert group["t_ns"][:].tolist() == [NOON_NS + number for number in numbers]
            texts = [b"".join(letters).decode() for letters in group["Gas"][:]]
            assert texts == ["x" * (number // 10) for number in numbers]


@pytest.mark.slow
def test_octave_reads_netcdf(tmp_path: Path) -> None:
    """Groups, numbers with gaps, integers of 64 bits, texts and attributes."""
    octave = program_or_skip("octave-cli", "octave octave-netcdf")
    out = exported(recording(tmp_path / "run.parquet"), ".nc")
    program = """
        pkg load netcdf
        file = argv(){end};
        printf("groups %s\\n", strjoin(sort({ncinfo(file).Groups.Name}), " "));
        flow = ncread(file, "/fuel/Mass_Flow");
        printf("flow %d %d %.2f\\n", numel(flow), sum(isnan(flow)), flow(end));
        stamps = ncread(file, "/fuel/t_ns");
        printf("stamp %s %d\\n", class(stamps), stamps(1));
        gas = ncread(file, "/fuel/Gas");
        printf("gas %s\\n", deblank(gas(:, 1)'));
        printf("unit %s\\n", ncreadatt(file, "/fuel/Mass_Flow", "penstock_units"));
        printf("serial %s\\n", ncreadatt(file, "/fuel", "serial"));
    """
    script = tmp_path / "read.m"
    script.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [octave, "--no-init-file", str(script), str(out)], capture_output=True, text=True
    )
    if "package netcdf" in done.stderr:
        pytest.skip("Octave has no package netcdf (Debian: apt-get install octave-netcdf)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "groups air_2 events fuel",
        "flow 50 1 12.25",
        f"stamp int64 {NOON_NS}",
        "gas N2 é",
        "unit SCCM",
        "serial 00123",
    ]


def test_no_two_columns_have_one_variable(tmp_path: Path) -> None:
    """Of odd names, and of those that the file has for other things."""
    names = ("Mass Flow", "Mass_Flow", "Mass/Flow", "time", "t_ns", "row", "Gas", "Gas_length")
    table = pyarrow.table(
        {
            "device": ["fuel"] * 2,
            "t_utc": pyarrow.array([NOON_NS, NOON_NS + 1], pyarrow.timestamp("ns", "UTC")),
            **{
                name: ["N2", "Ar"] if name == "Gas" else [float(number), number + 0.5]
                for number, name in enumerate(names)
            },
        }
    )
    with (tmp_path / "out.nc").open("w+b") as file:
        exported_netcdf.write_netcdf([table], table.schema, file)
    with h5py.File(tmp_path / "out.nc") as written:
        group = written["fuel"]
        assert group["t_ns"][:].tolist() == [NOON_NS, NOON_NS + 1]
        assert b"".join(group["Gas"][1]) == b"Ar"
        floats = {
            name: variable[:].tolist()
            for name, variable in group.items()
            if variable.dtype == "f8" and variable.shape == (2,)
        }
        named = {
            text_of(group[name].attrs.get("long_name", name)): values
            for name, values in floats.items()
        }
    assert named == {
        name: [float(number), number + 0.5] for number, name in enumerate(names) if name != "Gas"
    }
