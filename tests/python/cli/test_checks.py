"""What ``penstock verify`` says of rows: doubled, missing, out of order, late, of another rate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock.record
from penstock.cli import main
from penstock.cli._stored.checks import NEEDED, Findings, check
from penstock.cli._stored.polls import Distances
from penstock.record import ColumnBuffer, Field, ParquetSink, RecordSchema, SampleBatch
from penstock.record._stored import line_tables
from penstock.record.sink_choice import sink_for

FIELDS = (
    Field("Flow", "float", "SCCM"),
    Field("late_s", "float"),
    Field("event", "text"),
    Field("message", "text"),
)


def recorded(
    path: Path,
    slots: Iterable[int],
    *,
    period_ms: int = 100,
    about: dict[str, Any] | None = None,
    late_s: float = 0.0,
    error: str | None = None,
) -> Path:
    """One device; each number is a slot that has a row."""
    buffer = ColumnBuffer(RecordSchema(FIELDS, json.dumps(about or {})))
    for slot in slots:
        asked = slot * period_ms * 1_000_000 + round(late_s * 1e9)
        row: dict[str, Any] = {"Flow": slot / 3}
        text = error if slot % 10 == 0 else None
        buffer.append_row("a", "A", asked, asked, asked, asked + 4_000_000, row, "", text)
        buffer.amend("late_s", late_s)

    async def record() -> None:
        async with sink_for(path) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(record)
    return path


def checked(path: Path) -> Findings:
    return check(lambda: penstock.record.open(path, strict=False).pieces(NEEDED))


TEN_HZ = {"devices": {"a": {"rate_hz": 10}}}
CASES = [
    ("whole", range(200), TEN_HZ, {}),
    ("a gap", [*range(50), *range(53, 200)], TEN_HZ, {"gaps": 1}),
    ("a gap without a rate", [*range(50), *range(53, 200)], {}, {"gaps": 1}),
    ("twice", [*range(100), *range(100)], TEN_HZ, {"duplicates": 100}),
    ("again later", [*range(100), 7, *range(100, 200)], TEN_HZ, {"duplicates": 1}),
    ("exchanged", [*range(50), 51, 50, *range(52, 200)], {}, {"out_of_order": 1, "gaps": 1}),
    ("half the rate", range(0, 400, 2), TEN_HZ, {"gaps": 199, "rate_hz": 5.0}),
    ("twice the rate", range(200), {"devices": {"a": {"rate_hz": 5}}}, {"rate_hz": 10.0}),
    ("a damaged rate", range(50), {"devices": {"a": {"rate_hz": 1e-20}}}, {"rate_hz": 10.0}),
    ("no rate at all", [n * n for n in range(100)], {}, {}),
]


@pytest.mark.parametrize(
    ("slots", "about", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
@pytest.mark.parametrize("name", ["run.parquet", "run.csv"])
def test_what_is_wrong_with_the_rows_is_counted(
    tmp_path: Path, name: str, slots: Iterable[int], about: dict[str, Any], found: dict[str, Any]
) -> None:
    device = checked(recorded(tmp_path / name, slots, about=about)).devices["a"]
    names = ("gaps", "duplicates", "out_of_order", "rate_hz")
    counts = {each: value for each in names if (value := getattr(device, each))}
    if "gaps" in counts and "out_of_order" in counts:
        counts["gaps"] = min(counts["gaps"], 1)
    assert counts == found
    assert main(["verify", str(tmp_path / name)]) == (8 if found else 0)


@pytest.mark.parametrize(
    ("slots", "about"), [case[1:3] for case in CASES], ids=[case[0] for case in CASES]
)
def test_pieces_are_judged_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: Iterable[int], about: dict[str, Any]
) -> None:
    path = recorded(tmp_path / "run.csv", slots, about=about)
    whole = checked(path).devices
    for size in (200, 700, 3000):
        monkeypatch.setattr(line_tables, "_PIECE_BYTES", size)
        assert checked(path).devices == whole


def test_a_recording_in_order_is_read_once_and_one_with_doubtful_rows_twice(tmp_path: Path) -> None:
    for name, slots, times in (("one", range(50), 1), ("two", [*range(50), 7], 2)):
        path = recorded(tmp_path / f"{name}.parquet", slots, about=TEN_HZ)
        recording, begun = penstock.record.open(path), []

        def read(recording: Any = recording, begun: list[int] = begun) -> Any:
            begun.append(1)
            return recording.pieces(NEEDED)

        check(read)
        assert len(begun) == times


@given(
    st.lists(
        st.integers(-5, 10**12) | st.just(100_000_000) | st.integers(-(2**63), 2**63 - 1),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 7),
)
def test_distances_are_counted_by_size(values: list[int], at_a_time: int) -> None:
    found = Distances()
    for begin in range(0, len(values), at_a_time):
        found.add(pa.array(values[begin : begin + at_a_time], pa.int64()))
    assert (found.count, found.longest) == (len(values), max(0, *values))
    median = sorted(values)[(len(values) - 1) // 2]
    if median <= 0:
        assert found.median == 0
    else:
        assert found.median <= median <= found.median * 1.0006 + 1
    limit = 1_000_000
    far = [value for value in values if abs(value / limit - 1) > 0.001]
    if len(far) == len(values):
        assert found.above(limit) == sum(value > limit for value in values)


def test_late_polls_are_counted_and_are_no_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path / "run.parquet", range(50), about=TEN_HZ, late_s=0.02)
    assert main(["verify", str(path)]) == 0
    assert "duplicates 0, begun over 1 ms late 50" in capsys.readouterr().out


def test_another_rate_is_told_with_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path / "run.parquet", range(50), about={"devices": {"a": {"rate_hz": 4}}})
    assert main(["verify", str(path)]) == 8
    assert "of another rate: 10 Hz instead of 4 Hz" in capsys.readouterr().out


@pytest.mark.parametrize("piece", [200, 1000, 5000])
@pytest.mark.parametrize("damage", [None, b'no "reply"', b"3.x"])
def test_pieces_of_a_file_have_the_rows_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, damage: bytes | None
) -> None:
    text = 'TimeoutError: "no, reply"\nafter 0.5 s'
    path = recorded(tmp_path / "run.csv", range(100), about=TEN_HZ, error=text)
    if damage is not None:
        lines = path.read_bytes().split(b"\r\n")
        lines[40] = damage + lines[40]
        path.write_bytes(b"\r\n".join(lines))
    recording = penstock.record.open(path, strict=False)
    whole = recording.to_arrow()
    places = [str(each) for each in recording.damages]
    monkeypatch.setattr(line_tables, "_PIECE_BYTES", piece)
    parts = list(recording.pieces())
    assert [str(each) for each in recording.damages] == places
    assert len(parts) > 1
    assert [part.is_first for part in parts] == [True] + [False] * (len(parts) - 1)
    rows = [row for part in parts for row in part.table.to_pylist()]
    assert rows == whole.to_pylist()


def test_deep_reads_the_columns_that_a_seal_makes_unnecessary(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.parquet", range(50), about=TEN_HZ)
    recording = penstock.record.open(path)
    (few,) = recording.pieces(NEEDED)
    (all_of_it,) = recording.pieces()
    assert "Flow" not in few.table.column_names
    assert "Flow" in few.names
    assert "Flow" in all_of_it.table.column_names
    assert main(["verify", "--deep", str(path)]) == 0


async def _two_runs(path: Path) -> None:
    for run in ("one", "two"):
        about = json.dumps({"run_id": run, **TEN_HZ})
        buffer = ColumnBuffer(RecordSchema(FIELDS, about))
        for slot in range(20):
            buffer.append_row("a", "A", slot, slot, slot * 10**8, slot * 10**8, {}, "", None)
        async with ParquetSink(path, append=True) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))


def test_another_run_may_have_the_same_moments(tmp_path: Path) -> None:
    anyio.run(_two_runs, tmp_path / "run.parquet")
    findings = checked(tmp_path / "run.parquet")
    assert (findings.runs, findings.problems) == (2, 0)
