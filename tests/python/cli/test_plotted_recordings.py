"""``plot``: curves of recorded files in the terminal and as pictures."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cli._recording.plot import dot_plot, sparkline
from penstock.cli._stored.picture import TimeAxis, date_text
from penstock.record import (
    ColumnBuffer,
    Field,
    RecordSchema,
    SampleBatch,
)
from penstock.record.sink_choice import sink_for
from tests.python.cli.made_recordings import changing_recording, output, record_into


def test_a_device_whose_unit_changes_is_two_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path, new_unit="SLPM")
    code, out, _ = output(capsys, "plot", tmp_path / "run.parquet", "--device", "fuel")
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("fuel")]
    assert titles == ["fuel Mass_Flow (SCCM)", "fuel Mass_Flow (SLPM)"]


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
    assert (code, "has no column Volume; its numbers are Mass_Flow\n" in err) == (2, True)


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
