from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.csv_text import arrow_csv, csv_header, float_text, last_whole_line, plain_csv
from tests.python.record.batches import (
    batch_of,
    bounded,
    floats,
    flow_batch,
    rows,
    same_number,
    texts,
)


def parsed(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def test_a_row_is_written_exactly_like_this() -> None:
    assert csv_header(flow_batch(1).schema.names) == (
        b"device,unit_id,t_utc,t_mono_ns,requested_at,received_at,latency_s,"
        b"Mass_Flow,Gas,status,error\r\n"
    )
    assert plain_csv(flow_batch(1, first=3)) == (
        b"fuel,A,2026-11-21T12:00:00.154123000Z,154123456,2026-11-21T12:00:00.150000000Z,"
        b"2026-11-21T12:00:00.154123000Z,0.004123,3,N2,,\r\n"
    )


@bounded
@given(st.lists(rows, min_size=1, max_size=12))
def test_text_survives_any_csv_reader(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    table = parsed(csv_header(batch.schema.names) + plain_csv(batch))
    assert table[0] == list(batch.schema.names)
    assert len(table) == len(drawn) + 1
    for name in ("device", "unit_id", "Gas", "status", "error"):
        index = table[0].index(name)
        assert [line[index] for line in table[1:]] == [t or "" for t in batch.column(name)]
    for name in ("latency_s", "Mass_Flow", "Abs_Press"):
        index = table[0].index(name)
        for line, value in zip(table[1:], batch.column(name), strict=True):
            assert same_number(float(line[index]) if line[index] else None, value)


@bounded
@given(st.lists(rows, min_size=1, max_size=12))
def test_both_ways_of_formatting_yield_the_same_bytes(drawn: list[dict[str, Any]]) -> None:
    pytest.importorskip("pyarrow")
    batch = batch_of(drawn)
    assert bytes(arrow_csv(batch)) == plain_csv(batch)


@bounded
@given(floats)
def test_floats_read_back_the_same(value: float) -> None:
    assert same_number(float(float_text(value)), value)


@bounded
@given(st.lists(floats, max_size=50))
def test_floats_are_written_as_arrow_does(values: list[float]) -> None:
    pa = pytest.importorskip("pyarrow")
    theirs = pa.array(values, pa.float64()).cast(pa.string()).to_pylist()
    assert list(map(float_text, values)) == theirs


@bounded
@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=6), st.data())
def test_a_text_cut_anywhere_is_whole_up_to_a_row(lines: list[list[str]], data: Any) -> None:
    from penstock.record.csv_text import quoted

    encoded = [(",".join(map(quoted, line)) + "\r\n").encode() for line in lines]
    whole = b"".join(encoded)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
    kept = max(number for number, end in enumerate(ends) if end <= cut)
    assert last_whole_line(io.BytesIO(whole[:cut])) == (ends[kept], kept)
