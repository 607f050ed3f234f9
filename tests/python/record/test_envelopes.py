"""Envelopes against the same sums by NumPy, sample by sample."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import penstock.record
from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch
from penstock.record._parts.parts_folder import RUNS_KEY
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record._stored.table_files import chosen_columns
from penstock.record.envelopes.bins import Bins, GrowingEnvelope, Numbers, Times
from penstock.record.envelopes.curves import Curves, line_of
from penstock.record.stored_parts import StoredPart

_START = 1_790_000_000_000_000_000
_NUMBERS = st.floats(-1e6, 1e6) | st.just(float("nan"))
_SAMPLES = st.lists(st.tuples(st.integers(-5000, 5000), _NUMBERS), max_size=80)


def arrays(samples: list[tuple[int, float]], start: int = 0) -> tuple[Times, Numbers]:
    t = np.array([moment + start for moment, _ in samples], np.int64)
    return t, np.array([value for _, value in samples], np.float64)


def slowly(t: Times, values: Numbers, power: int) -> dict[int, list[float]]:
    """Of each bin: lowest, highest, first, last, count."""
    order = np.argsort(t, kind="stable")
    t, values = t[order], values[order]
    found: dict[int, list[float]] = {}
    for moment, value in zip(t.tolist(), values.tolist(), strict=True):
        found.setdefault(moment >> power, []).append(value)
    sums = {}
    for number, inside in sorted(found.items()):
        known = [value for value in inside if value == value]
        nan = float("nan")
        sums[number] = (
            [min(known), max(known), known[0], known[-1], len(known)]
            if known
            else [nan, nan, nan, nan, 0]
        )
    return sums


def assert_is(bins: Bins, expected: dict[int, list[float]], *, in_order: bool = True) -> None:
    """Where sources overlap, nobody can tell which value of a bin was the first."""
    assert bins.number.tolist() == list(expected)
    got = np.stack((*bins.columns, bins.count.astype(float)), axis=1)
    sums = np.array(list(expected.values())).reshape(-1, 5)
    compared = [0, 1, 2, 3, 4] if in_order else [0, 1, 4]
    assert_array_equal(got[:, compared], sums[:, compared])


def is_ordered(samples: list[tuple[int, float]]) -> bool:
    return all(a[0] <= b[0] for a, b in pairwise(samples))


@given(_SAMPLES, st.integers(0, 12))
def test_bins_have_the_extremes_of_their_samples(
    samples: list[tuple[int, float]], power: int
) -> None:
    t, values = arrays(samples)
    assert_is(Bins.of(t, values, power), slowly(t, values, power))


@given(st.integers(1, 3000), st.integers(0, 20), st.integers(0, 2**20), st.booleans())
def test_long_runs_in_order_are_summed_up_alike(
    rows: int, power: int, start: int, hole: bool
) -> None:
    t = np.arange(rows, dtype=np.int64) * 7 + start
    if hole:
        t[rows // 2 :] += 100_000
    values = np.random.default_rng(rows).normal(size=rows)
    assert_is(Bins.of(t, values, power), slowly(t, values, power))


@given(_SAMPLES, _SAMPLES, st.integers(0, 8), st.integers(0, 8))
def test_merged_bins_are_those_of_all_samples(
    one: list[tuple[int, float]], other: list[tuple[int, float]], power: int, second: int
) -> None:
    merged = Bins.of(*arrays(one), power).merged(Bins.of(*arrays(other), second))
    wider = merged.power
    assert wider == max(power, second) or not (one and other)
    expected = slowly(*arrays(one + other), wider)
    assert_is(merged, expected, in_order=is_ordered(one + other))


@given(_SAMPLES, st.integers(0, 80), st.integers(0, 8))
def test_merged_bins_of_consecutive_samples_have_their_first_and_last(
    samples: list[tuple[int, float]], cut: int, power: int
) -> None:
    samples.sort(key=lambda sample: sample[0])
    one, other = (Bins.of(*arrays(part), power) for part in (samples[:cut], samples[cut:]))
    assert_is(one.merged(other), slowly(*arrays(samples), power))


@given(_SAMPLES, st.integers(0, 6), st.integers(0, 6))
def test_coarser_bins_need_no_samples(
    samples: list[tuple[int, float]], power: int, more: int
) -> None:
    t, values = arrays(samples)
    assert_is(Bins.of(t, values, power).coarser(power + more), slowly(t, values, power + more))


@given(st.lists(_SAMPLES, max_size=8), st.integers(2, 40))
def test_an_envelope_that_grows_is_that_of_all_samples(
    pieces: list[list[tuple[int, float]]], limit: int
) -> None:
    growing = GrowingEnvelope(limit)
    for piece in pieces:
        growing.add(*arrays(piece, _START))
    everything = [sample for piece in pieces for sample in piece]
    t, values = arrays(everything, _START)
    assert len(growing.bins) <= limit
    expected = slowly(t, values, growing.bins.power)
    assert_is(growing.bins, expected, in_order=is_ordered(everything))
    assert growing.span == ((int(t.min()), int(t.max())) if everything else None)


def test_bins_are_not_divided() -> None:
    with pytest.raises(ValueError, match=r"2\*\*3 ns cannot be divided into 2\*\*2 ns"):
        Bins.of(*arrays([(0, 1.0)]), 3).coarser(2)


@given(_SAMPLES, st.integers(0, 12))
def test_a_line_reaches_every_extreme(samples: list[tuple[int, float]], power: int) -> None:
    bins = Bins.of(*arrays(samples), power)
    line = line_of(bins)
    assert bool((np.diff(line.t) >= 0).all())
    inside = Bins.of(line.t, line.values, power)
    assert_array_equal(inside.number, bins.number)
    for got, expected in zip(inside.columns, bins.columns, strict=True):
        assert_array_equal(got, expected)


def test_a_line_ends_where_nothing_was_recorded() -> None:
    bins = Bins.of(*arrays([(0, 1.0), (10, 2.0), (1000, 3.0), (1010, float("nan")), (1020, 4.0)]))
    line = line_of(bins, gap_ns=100)
    assert_array_equal(line.values, [1, 2, np.nan, 3, np.nan, 4])
    assert line.values[line.isolated].tolist() == [3, 4]
    assert_array_equal(line_of(bins).values, [1, 2, 3, np.nan, 4])


def test_a_spike_of_one_sample_in_a_month_is_in_the_envelope() -> None:
    seconds = 30 * 86_400
    growing = GrowingEnvelope(4096)
    for begin in range(0, seconds, 100_000):
        number = np.arange(begin, min(seconds, begin + 100_000), dtype=np.int64)
        values = np.sin(number / 10_000)
        values[number == 1_234_567] = 400.0
        values[number == 2_000_001] = -300.0
        growing.add(_START + number * 1_000_000_000, values)
    bins = growing.bins
    assert (bins.high.max(), bins.low.min(), int(bins.count.sum())) == (400.0, -300.0, seconds)
    place = bins.begin[bins.high == 400.0] - _START
    assert 0 <= 1_234_567_000_000_000 - int(place[0]) < 2**bins.power
    assert line_of(bins).values.max() == 400.0


Row: TypeAlias = tuple[str, int, dict[str, Any]]
"""A device, a time in nanoseconds since the start, and the values of the fields."""


def table_of(fields: tuple[Field, ...], rows: list[Row], metadata: str = "{}") -> pa.Table:
    buffer = ColumnBuffer(RecordSchema((*fields, Field("event", "text")), metadata))
    for device, t, values in rows:
        moment = _START + t
        measured = {name: value for name, value in values.items() if name != "event"}
        buffer.append_row(device, "A", moment, moment, t, t, measured, "", None)
        if "event" in values:
            buffer.amend("event", values["event"])
    return pa.Table.from_batches([SampleBatch.from_buffer(buffer).to_arrow()])


def curves_of(*tables: pa.Table, **options: Any) -> Curves:
    curves = Curves(100, **options)
    for table in tables:
        columns = chosen_columns(curves.columns, table.schema)
        curves.add(StoredPart(Path("run"), table.select(columns)))
    return curves


def values_of(curves: Curves) -> dict[tuple[str, str, str], list[float]]:
    return {
        (each.device, each.field, each.unit): each.envelope.bins.first.tolist()
        for each in curves.all
    }


def test_a_change_of_unit_begins_another_curve() -> None:
    row: Row = ("a", 0, {"Mass_Flow": 1.0})
    later: Row = ("a", 1, {"Mass_Flow": 2.0})
    curves = curves_of(
        table_of((Field("Mass_Flow", "float", "SCCM"),), [row]),
        table_of((Field("Mass_Flow", "float", "SLPM"),), [later]),
    )
    assert values_of(curves) == {("a", "Mass_Flow", "SCCM"): [1], ("a", "Mass_Flow", "SLPM"): [2]}


def test_a_change_of_type_is_one_curve() -> None:
    curves = curves_of(
        table_of((Field("F", "float"),), [("a", 0, {"F": 1.5})]),
        table_of((Field("F", "int"),), [("a", 1, {"F": 2})]),
        table_of((Field("F", "text"),), [("a", 2, {"F": "3.5"}), ("a", 3, {"F": "OVER"})]),
        table_of((), [("a", 4, {})]),
        fields=["F"],
    )
    (curve,) = curves.all
    assert_array_equal(curve.envelope.bins.first, [1.5, 2, 3.5, np.nan])
    assert curves.found_fields == {"F"}


def test_each_device_shows_its_own_quantity() -> None:
    devices = {
        "flow": {"units": {"Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM"}, "rate_hz": 10},
        "press": {"units": {"Abs_Press": "PSIA", "Press_Setpt": "PSIA"}},
    }
    fields = tuple(
        Field(name, "float")
        for name in ("Mass_Flow", "Mass_Flow_Setpt", "Abs_Press", "Press_Setpt", "Other")
    )
    rows: list[Row] = [
        ("flow", 0, {"Mass_Flow": 1.0, "Abs_Press": 9.0}),
        ("press", 1, {"Abs_Press": 2.0}),
        ("flow", 2, {"event": "note"}),
        ("flow", 3, {"Mass_Flow": 3.0}),
    ]
    curves = curves_of(table_of(fields, rows, json.dumps({"devices": devices})))
    assert values_of(curves) == {("flow", "Mass_Flow", ""): [1, 3], ("press", "Abs_Press", ""): [2]}
    assert [curve.gap_ns for curve in curves.all] == [500_000_000, None]
    assert curves.span == (_START, _START + 3)


def test_only_the_asked_devices_and_times_are_taken() -> None:
    rows: list[Row] = [("ab"[n % 2], n, {"F": float(n)}) for n in range(10)]
    table = table_of((Field("F", "float"),), rows)
    curves = curves_of(table, devices=["b"], begin=_START + 3, end=_START + 7)
    assert values_of(curves) == {("b", "F", ""): [3, 5]}


def test_a_clock_that_is_set_moves_no_sample_of_a_steady_axis() -> None:
    about = json.dumps({"boot_id": "one"})
    fields = (Field("F", "float"),)
    table = table_of(fields, [("a", n, {"F": float(n)}) for n in range(4)], about)
    later = table_of(fields, [("a", n, {"F": float(n)}) for n in range(4, 8)], about)
    back = pa.array([_START - 10**12 + n for n in range(4)], pa.int64())
    set_back = later.set_column(2, "t_utc", back.cast(pa.timestamp("ns", "UTC")))
    steady = curves_of(table, set_back, times="steady").all[0].envelope.bins
    assert (steady.number - _START).tolist() == list(range(8))
    wall = curves_of(table, set_back, times="wall").all[0].envelope.bins
    assert wall.first.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]


def test_a_parquet_file_is_read_in_pieces_of_chosen_columns(tmp_path: Path) -> None:
    rows: list[Row] = [("a", n, {"F": float(n), "G": 0.0}) for n in range(10)]
    table = table_of((Field("F", "float", "K"), Field("G", "float")), rows)
    path = tmp_path / "run.parquet"
    runs = [{"rows": 4, "recording": {"n": 1}}, {"rows": 6, "recording": {"n": 2}}]
    about = {**table.schema.metadata, RUNS_KEY: json.dumps(runs).encode()}
    schema = table.schema.with_metadata(about)
    parts = [table.slice(begin, 5).cast(schema) for begin in (0, 5)]
    ParquetFormat("zstd").write(parts, schema, path)
    pieces = list(penstock.record.open(path).pieces(["t_utc", "F", "absent"]))
    assert [piece.table.column_names for piece in pieces] == [["t_utc", "F"]] * 3
    assert all(piece.names == tuple(table.column_names) for piece in pieces)
    assert [piece.table["F"].to_pylist() for piece in pieces] == [
        [0, 1, 2, 3],
        [4],
        [5, 6, 7, 8, 9],
    ]
    assert [piece.metadata["n"] for piece in pieces] == [1, 2, 2]
    assert [piece.is_first for piece in pieces] == [True, True, False]
    assert pieces[2].units == {"F": "K"}
    chosen = penstock.record.open(path).pieces(lambda schema: schema.names[-1:])
    assert [piece.table.column_names for piece in chosen] == [[table.column_names[-1]]] * 3


def test_of_a_damaged_row_group_the_rows_before_the_damage_are_read(tmp_path: Path) -> None:
    rows: list[Row] = [("a", n, {"F": float(n)}) for n in range(2000)]
    table = table_of((Field("F", "float"),), rows)
    path = tmp_path / "run.parquet"
    ParquetFormat("none").write([table.slice(0, 1000), table.slice(1000)], table.schema, path)
    with pa.parquet.ParquetFile(path) as file:
        column = next(
            file.metadata.row_group(1).column(n)
            for n in range(file.metadata.num_columns)
            if file.metadata.row_group(1).column(n).path_in_schema == "F"
        )
        place = column.data_page_offset + 200  # behind the head of its first page
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    recording = penstock.record.open(path, strict=False)
    values = [v for piece in recording.pieces(["F"]) for v in piece.table["F"].to_pylist()]
    assert values == [float(n) for n in range(len(values))]
    assert 1000 <= len(values) < 2000
    assert [damage.rows for damage in recording.damages] == [2000 - len(values)]
