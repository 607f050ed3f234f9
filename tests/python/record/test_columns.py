from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch
from penstock.record.schema import unite
from tests.python.record.batches import (
    THREE_FIELDS,
    batch_of,
    bounded,
    flow_batch,
    rows,
    same_values,
)
from tests.python.record.instruments import FakeField, FakeReading, FakeResult, failure, reply


@bounded
@given(st.lists(rows, max_size=20))
def test_rows_come_back_from_the_columns(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    assert len(batch) == len(drawn)
    for sample, row in zip(batch, drawn, strict=True):
        assert sample.device == _stored(row["device"])
        assert sample.unit_id == _stored(row["unit_id"])
        assert sample.status == _stored(row["status"])
        assert sample.error == _stored(row["error"])
        assert sample.t_mono_ns == row["received_mono_ns"]
        expected = {n: _stored(v) if isinstance(v, str) else v for n, v in row["values"].items()}
        assert same_values(sample.values, expected)
    assert batch.column("t_utc") == [row["received_utc_ns"] for row in drawn]


@bounded
@given(st.lists(rows, max_size=20))
def test_arrow_holds_the_same_columns(drawn: list[dict[str, Any]]) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = batch_of(drawn)
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert arrow.schema.names == list(batch.schema.names)
    for name in batch.schema.names:
        column = arrow.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        ours, theirs = batch.column(name), column.to_pylist()
        assert same_values(dict(enumerate(ours)), dict(enumerate(theirs)))  # type: ignore[arg-type]


@bounded
@given(st.lists(rows, max_size=20), st.integers(-3, 23), st.integers(-3, 23))
def test_a_slice_is_the_slice_of_the_rows(
    drawn: list[dict[str, Any]], start: int, stop: int
) -> None:
    batch = batch_of(drawn)
    part = batch.slice(start, stop)
    for name in batch.schema.names:
        assert repr(part.column(name)) == repr(batch.column(name)[start:stop])
    pytest.importorskip("pyarrow")
    part.to_arrow().validate(full=True)


def _stored(text: str | None) -> str | None:
    # Lone surrogates have no UTF-8; hypothesis' text() draws none, but argv and paths may.
    return text if text is None else text.encode("utf-8", "backslashreplace").decode()


def test_arrow_types_are_those_of_the_documentation() -> None:
    pa = pytest.importorskip("pyarrow")
    schema = flow_batch(1).to_arrow().schema
    text = pa.dictionary(pa.int32(), pa.string())
    stamp = pa.timestamp("ns", "UTC")
    assert {name: schema.field(name).type for name in schema.names} == {
        "device": text,
        "unit_id": text,
        "t_utc": stamp,
        "t_mono_ns": pa.int64(),
        "requested_at": stamp,
        "received_at": stamp,
        "latency_s": pa.float64(),
        "Mass_Flow": pa.float64(),
        "Gas": text,
        "status": text,
        "error": pa.string(),
    }
    assert schema.field("Mass_Flow").metadata == {b"unit": b"SCCM"}


def test_a_field_that_turns_up_later_is_null_before() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", None, reply({"Mass_Flow": 1.0}))
    buffer.append_result("a", None, reply({"Mass_Flow": 2.0, "Abs_Press": 14.7, "Gas": "N2"}))
    buffer.append_result("a", None, reply({"Mass_Flow": 3.0}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.schema.names[7:10] == ("Mass_Flow", "Abs_Press", "Gas")
    assert batch.column("Abs_Press") == [None, 14.7, None]
    assert batch.column("Gas") == [None, "N2", None]


def test_text_in_a_numeric_field_gets_a_column_of_its_own() -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Mass_Flow", "float"),)))
    buffer.append_result("a", None, reply({"Mass_Flow": 1.0}))
    buffer.append_result("a", None, reply({"Mass_Flow": "-------"}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("Mass_Flow") == [1.0, None]
    assert batch.column("Mass_Flow_text") == [None, "-------"]


def test_a_number_in_a_text_field_is_kept_as_text() -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Gas", "str"),)))
    buffer.append_result("a", None, reply({"Gas": 8}))
    assert SampleBatch.from_buffer(buffer).column("Gas") == ["8"]


def test_whole_numbers_are_stored_as_floats() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", None, reply({"Count": 8, "On": True}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("Count") == [8.0]
    assert batch.column("On") == [1.0]


def test_fields_named_like_fixed_columns_are_prefixed() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", None, reply({"status": 3.0, "error": "x"}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("field_status") == [3.0]
    assert batch.column("field_error") == ["x"]
    assert batch.column("error") == [None]


def test_a_row_that_fails_leaves_the_columns_even() -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Mass_Flow", "float"),)))
    buffer.append_result("a", None, reply({"Mass_Flow": 1.0}))
    with pytest.raises(ValueError, match="two values"):
        buffer.append_result("a", None, reply({"Mass_Flow": 2.0, "status": 1.0, "field_status": 1}))
    buffer.append_result("a", None, reply({"Mass_Flow": 3.0}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("Mass_Flow") == [1.0, 3.0]
    assert batch.column("field_status") == [None, None]


def test_status_codes_are_joined_in_order_by_their_values() -> None:
    class Code(StrEnum):
        HOLD = "HLD"
        MOVING = "MOV"

    buffer = ColumnBuffer()
    buffer.append_result("a", None, reply(status=frozenset({Code.MOVING, Code.HOLD})))
    buffer.append_result("a", None, reply())
    assert SampleBatch.from_buffer(buffer).column("status") == ["HLD,MOV", ""]


def test_a_failed_result_keeps_the_unit_id_that_is_known() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", "C", failure(TimeoutError()))
    (sample,) = SampleBatch.from_buffer(buffer)
    assert sample.unit_id == "C"
    assert sample.error == "TimeoutError"


def test_an_error_text_with_lone_surrogates_is_written_out() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", None, failure(OSError("/dev/tty\udcff")))
    (sample,) = SampleBatch.from_buffer(buffer)
    assert sample.error == "OSError: /dev/tty\\udcff"


def test_a_naive_time_stamp_is_refused() -> None:
    good = reply()
    bad = FakeResult(
        FakeReading("A", {}),
        None,
        good.requested_at.replace(tzinfo=None),
        good.received_at,
        0,
        1,
    )
    buffer = ColumnBuffer()
    with pytest.raises(TypeError):
        buffer.append_result("a", None, bad)
    assert len(buffer) == 0


@bounded
@given(st.lists(rows, max_size=8))
def test_samples_make_the_batch_they_came_from(drawn: list[dict[str, Any]]) -> None:
    # A Sample tells microseconds, so the comparison is of the objects, not of the nanoseconds.
    first = list(batch_of(drawn))
    again = list(SampleBatch.from_samples(first, THREE_FIELDS))
    assert repr(again) == repr(first)


def test_the_union_of_fields_keeps_every_unit() -> None:
    fields = unite(
        {
            "a": [FakeField("Mass_Flow", "float", "SCCM"), FakeField("Temp", "float", "C")],
            "b": [FakeField("Mass_Flow", "float", "SLPM"), FakeField("Gas", "str")],
            "c": [FakeField("Gas", "float"), FakeField("status", "float")],
        }
    )
    assert fields == (
        Field("Mass_Flow", "float", None, (("a", "SCCM"), ("b", "SLPM"))),
        Field("Temp", "float", "C"),
        Field("Gas", "float"),
        Field("Gas_text", "str"),
        Field("field_status", "float"),
    )
