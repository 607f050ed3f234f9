"""Columns made a column at a time are those made row by row."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.record import ColumnBuffer, Field, RecordSchema, Sample, SampleBatch
from penstock.record._columns.batch import buffer_samples
from penstock.record._sample import from_utc_ns
from tests.python.record.batches import THREE_FIELDS, bounded, flow_batch, texts

cells = st.one_of(st.floats(allow_nan=False), texts, st.integers(-5, 5), st.booleans())
names = st.sampled_from(["Mass_Flow", "Gas", "Abs_Press", "New", "status"])
moments = st.integers(-(10**18), 8 * 10**18).map(from_utc_ns)
samples = st.builds(
    Sample,
    device=texts,
    unit_id=st.none() | texts,
    t_utc=moments,
    t_mono_ns=st.integers(0, 10**15),
    requested_at=moments,
    received_at=moments,
    latency_s=st.floats(0, 10),
    values=st.dictionaries(names, cells, max_size=3),
    status=st.none() | texts,
    error=st.none() | texts,
    late_s=st.none() | st.floats(0, 1),
    event=st.none() | texts,
)
WITH_EVENT = RecordSchema((*THREE_FIELDS.fields, Field("event", "text")))


@bounded
@given(st.lists(samples, max_size=6), st.sampled_from([None, THREE_FIELDS, WITH_EVENT]))
def test_both_ways_make_the_same_columns(drawn: list[Sample], schema: RecordSchema | None) -> None:
    by_row = ColumnBuffer(schema)
    for sample in drawn:
        by_row.append_sample(sample)
    one, other = (
        SampleBatch.from_buffer(by_row),
        SampleBatch.from_buffer(buffer_samples(drawn, schema)),
    )
    assert one.schema == other.schema

    def columns(batch: SampleBatch) -> dict[str, Any]:
        return {name: batch.column(name) for name in batch.schema.names}

    assert columns(one) == columns(other)


def test_samples_of_a_batch_become_the_same_batch() -> None:
    batch = flow_batch(500)
    again = SampleBatch.from_samples(list(batch), batch.schema)
    for name in batch.schema.names:
        if name not in ("t_utc", "received_at", "requested_at"):  # microseconds in samples
            assert again.column(name) == batch.column(name)
