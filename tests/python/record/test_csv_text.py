from __future__ import annotations

import csv
import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.record._sinks.csv_text import _quoted, csv_bytes, csv_header
from penstock.record._sinks.line_ends import last_whole_line
from tests.python.record.batches import (
    batch_of,
    bounded,
    flow_batch,
    rows,
    same_number,
    texts,
    typed_batch,
)


def parsed(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def test_a_row_is_written_exactly_like_this() -> None:
    assert csv_header(flow_batch(1).schema.names) == (
        b"device,unit_id,t_utc,t_mono_ns,requested_at,received_at,latency_s,"
        b"Mass_Flow,Gas,status,error\r\n"
    )
    assert csv_bytes(flow_batch(1, first=3), 0, 1) == (
        b"fuel,A,2026-11-21T12:00:00.154123000Z,154123456,2026-11-21T12:00:00.150000000Z,"
        b"2026-11-21T12:00:00.154123000Z,0.004123,3,N2,,\r\n"
    )


@bounded
@given(st.lists(rows, min_size=1, max_size=12))
def test_text_survives_any_csv_reader(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    table = parsed(csv_header(batch.schema.names) + csv_bytes(batch, 0, len(batch)))
    assert table[0] == list(batch.schema.names)
    assert len(table) == len(drawn) + 1
    for name in ("device", "unit_id", "Gas", "status", "error"):
        index = table[0].index(name)
        assert [line[index] for line in table[1:]] == [t or "" for t in batch.column(name)]
    for name in ("latency_s", "Mass_Flow", "Abs_Press"):
        index = table[0].index(name)
        for line, value in zip(table[1:], batch.column(name), strict=True):
            assert same_number(float(line[index]) if line[index] else None, value)


def test_every_kind_is_written() -> None:
    batch = typed_batch()
    lines = parsed(csv_header(batch.schema.names) + csv_bytes(batch, 0, len(batch)))
    written = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    names = ("Flow", "Count", "Open", "Gas", "Calibrated", "Open_text")
    assert [[row[name] for name in names] for row in written] == [
        ["1.5", "9007199254740993", "true", "N2", "2026-11-21T12:00:00.250000000Z", ""],
        ["", "", "", "", "", ""],
        ["1", "2", "", "8", "", "ajar"],
    ]


@bounded
@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=6), st.data())
def test_a_text_cut_anywhere_is_whole_up_to_a_row(lines: list[list[str]], data: Any) -> None:
    encoded = [(",".join(map(_quoted, line)) + "\r\n").encode() for line in lines]
    whole = b"".join(encoded)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
    kept = max(number for number, end in enumerate(ends) if end <= cut)
    assert last_whole_line(io.BytesIO(whole[:cut]), quoted=True) == (ends[kept], kept)
