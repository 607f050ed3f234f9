from __future__ import annotations

import csv
import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.record._columns.row_text import csv_bytes, csv_header, quoted
from penstock.record._files.line_ends import Layout, has_faulty_row, rows_of, text_end
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
    encoded = [(",".join(map(quoted, line)) + "\r\n").encode() for line in lines]
    whole = b"".join(encoded)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, encoded[:n])) for n in range(len(encoded) + 1)]
    kept = max(number for number, end in enumerate(ends) if end <= cut)
    found = text_end(io.BytesIO(whole[:cut]), Layout(True, 2))
    if found.lacks_end:
        # The row is there but for its line end, or for the rest of its last field.
        assert found.end == cut
        assert found.rows == kept + 1
        assert whole[ends[kept] : cut].rstrip(b"\r").count(b",") >= 1
    else:
        assert (found.end, found.rows) == (ends[kept], kept)


ROWS = st.lists(
    st.sampled_from(
        [
            b"a,2026-11-21T12:00:00Z,x",
            b'a,2026-11-21T12:00:00Z,"x,y"',
            b'"a\n\n""b""",2026-11-21T12:00:00Z,x',
            b'a,2026-11-21T12:00:00Z,x"',
            b'a,2026-11-21T12:00:00Z,"x',
            b'a,"2026-11-21T12:00:00Z,x',
            b'a,2026-11-21T12:00:00Z,"x"y',
            b'a,"b"',
            b'a,2026-11-21T12:00:00Z,"x\r"',
            b'"',
            b"",
        ]
    ),
    max_size=8,
)


@bounded
@given(ROWS, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_the_look_at_rows_with_quotes_finds_what_the_look_at_all_rows_finds(
    rows: list[bytes], end: bytes, ended: bool
) -> None:
    data = end.join(rows) + (end if ended else b"")
    layout = Layout(True, 3)
    slow = any(row.fault for row in rows_of(io.BytesIO(data), layout))
    assert has_faulty_row(data, layout) == slow


@bounded
@given(ROWS)
def test_a_stray_quote_costs_no_whole_row_behind_it(rows: list[bytes]) -> None:
    good = b"b,2026-11-21T12:00:00Z,y\r\n"
    data = b"".join(row + b"\r\n" + good * 2 for row in rows)
    found = [row for row in rows_of(io.BytesIO(data), Layout(True, 3)) if not row.fault]
    assert sum(row.data == good for row in found) >= len(rows)
    assert b"".join(r.data for r in rows_of(io.BytesIO(data), Layout(True, 3))) == data
