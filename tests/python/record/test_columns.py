from __future__ import annotations

from datetime import UTC
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import ColumnBuffer, Field, FieldValue, RecordSchema, SampleBatch
from penstock.record._sample import to_utc_ns
from penstock.record.schema import unite
from tests.python.record.batches import (
    MOMENT,
    THREE_FIELDS,
    TYPED,
    batch_of,
    bounded,
    flow_batch,
    rows,
    same_values,
    typed_batch,
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
    buffer = ColumnBuffer(RecordSchema((Field("Gas", "text"),)))
    buffer.append_result("a", None, reply({"Gas": 8}))
    assert SampleBatch.from_buffer(buffer).column("Gas") == ["8"]


def test_whole_numbers_are_stored_as_floats() -> None:
    buffer = ColumnBuffer()
    buffer.append_result("a", None, reply({"Count": 8, "On": True}))
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("Count") == [8.0]
    assert batch.column("On") == [1.0]


def test_declared_kinds_are_kept_and_other_kinds_stand_beside() -> None:
    batch = typed_batch()
    assert batch.column("Flow") == [1.5, None, 1.0]
    assert batch.column("Count") == [2**53 + 1, None, 2]
    assert batch.column("Open") == [True, None, None]
    assert batch.column("Open_text") == [None, None, "ajar"]
    assert batch.column("Gas") == ["N2", None, "8"]
    assert batch.column("Calibrated") == [to_utc_ns(MOMENT), None, None]
    assert batch.column("Calibrated_text") == [None, None, "3"]
    first, second, _ = batch
    assert first.values["Calibrated"] == MOMENT
    assert second.values == {}
    assert next(iter(SampleBatch.from_samples([first], TYPED))).values == first.values


@given(
    st.one_of(
        st.integers(), st.floats(), st.booleans(), st.text(), st.datetimes(timezones=st.just(UTC))
    )
)
def test_a_value_is_kept_as_its_kind_or_as_text(value: FieldValue) -> None:
    for field in TYPED.fields:
        buffer = ColumnBuffer(TYPED)
        buffer.append_result("a", None, reply({field.name: value}))
        (sample,) = SampleBatch.from_buffer(buffer)
        ((name, kept),) = sample.values.items()
        if name == field.name:
            same = kept == value or (isinstance(value, int) and kept == float(value))
            assert same or isinstance(kept, str) or value != value
        else:
            assert name == f"{field.name}_text"
            assert isinstance(kept, str)


def test_arrow_has_the_declared_kinds() -> None:
    pa = pytest.importorskip("pyarrow")
    arrow = typed_batch().to_arrow()
    arrow.validate(full=True)
    assert arrow.schema.field("Count").type == pa.int64()
    assert arrow.schema.field("Open").type == pa.bool_()
    assert arrow.schema.field("Calibrated").type == pa.timestamp("ns", "UTC")
    assert arrow.column("Count").to_pylist() == [2**53 + 1, None, 2]
    assert arrow.column("Open").to_pylist() == [True, None, None]
    assert arrow.column("Calibrated").cast(pa.int64()).to_pylist() == [
        to_utc_ns(MOMENT),
        None,
        None,
    ]


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
        FakeReading({}),
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
            "b": [FakeField("Mass_Flow", "float", "SLPM"), FakeField("Gas", "text")],
            "c": [FakeField("Gas", "float"), FakeField("status", "float")],
        }
    )
    assert fields == (
        Field("Mass_Flow", "float", None, (("a", "SCCM"), ("b", "SLPM"))),
        Field("Temp", "float", "C"),
        Field("Gas", "float"),
        Field("Gas_text", "text"),
        Field("field_status", "float"),
    )


def test_a_field_named_like_one_of_the_recorders_own_has_another_column() -> None:
    buffer = ColumnBuffer(RecordSchema((Field("event", "text"), Field("late_s", "float"))))
    buffer.append_row("a", None, 0, 0, 0, 0, {"event": "hot", "late_s": 3.0}, None, None)
    buffer.amend("late_s", 0.5)
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("field_event") == ["hot"]
    assert batch.column("field_late_s") == [3.0]
    assert (batch.column("event"), batch.column("late_s")) == ([None], [0.5])


def test_columns_that_most_rows_leave_out_have_their_values_in_the_right_rows() -> None:
    buffer = ColumnBuffer(RecordSchema((Field("x", "float"), Field("event", "text"))))
    for row in range(10):
        values = {"x": float(row)} if row % 3 == 0 else {}
        buffer.append_row("a", "A" if row > 4 else None, 0, 0, 0, 0, values, None, None)
        if row == 7:
            buffer.amend("event", "note")
    batch = SampleBatch.from_buffer(buffer)
    assert batch.column("x") == [float(n) if n % 3 == 0 else None for n in range(10)]
    assert batch.column("event") == [None] * 7 + ["note"] + [None] * 2
    assert batch.column("unit_id") == [None] * 5 + ["A"] * 5
    assert batch.column("error") == batch.column("status") == [None] * 10
