"""Batches to write: by hand, and as hypothesis strategies."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
from hypothesis import settings
from hypothesis import strategies as st

from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch, Sink
from tests.python.record.instruments import reply

bounded = settings(max_examples=100)
# For examples that record and recover files.
few = settings(max_examples=25)

NOON_NS = 1_795_262_400_000_000_000
MASS_FLOW = RecordSchema(
    (Field("Mass_Flow", "float", "SCCM"), Field("Gas", "text")), '{"rate_hz": 20}'
)


def flow_batch(rows: int, first: int = 0, schema: RecordSchema = MASS_FLOW) -> SampleBatch:
    """``rows`` good samples of one device; the flow counts up from ``first``."""
    buffer = ColumnBuffer(schema)
    for number in range(first, first + rows):
        moment = number * 50_000_000
        buffer.append_row(
            "fuel",
            "A",
            NOON_NS + moment,
            NOON_NS + moment + 4_123_000,
            moment,
            moment + 4_123_456,
            {"Mass_Flow": float(number), "Gas": "N2"},
            "",
            None,
        )
    return SampleBatch.from_buffer(buffer)


async def write_at_random(
    sink: Sink,
    chance: random.Random,
    rows: int,
    *,
    times: int = 8,
    many: int = 400,
    pauses: tuple[float, ...] = (0, 0.001, 0.02),
) -> int:
    """Write up to ``times`` batches of up to ``many`` rows, with pauses; return the next row."""
    for _ in range(chance.randrange(1, times)):
        count = chance.randrange(1, many)
        await sink.write_batch(flow_batch(count, rows))
        rows += count
        await anyio.sleep(chance.choice(pauses))
    return rows


texts = st.one_of(
    st.sampled_from(
        ["", ",", '"', "\r\n", "\n", "\r", '""', " a ", "é,ü", "no reply\nafter 0.5 s"]
    ),
    st.text(max_size=12),
)
floats = st.one_of(
    st.floats(),
    st.floats(width=16),
    st.decimals(-10_000, 10_000, places=2).map(float),
    st.integers(-(10**17), 10**17).map(float),
    st.sampled_from([1e14, 1e15, 99999999999999.9, 1e-5, 1e-6, 1e-7, -0.0, 5e-324, 1e22]),
)
stamps = st.integers(0, 4 * 10**18)

rows = st.fixed_dictionaries(
    {
        "device": texts,
        "unit_id": st.none() | texts,
        "requested_utc_ns": stamps,
        "received_utc_ns": stamps,
        "requested_mono_ns": st.integers(0, 10**15),
        "received_mono_ns": st.integers(0, 10**15),
        "values": st.fixed_dictionaries(
            {}, optional={"Mass_Flow": floats, "Gas": texts, "Abs_Press": floats}
        ),
        "status": st.none() | texts,
        "error": st.none() | texts,
    }
)
THREE_FIELDS = RecordSchema(
    (Field("Mass_Flow", "float"), Field("Gas", "text"), Field("Abs_Press", "float"))
)


def batch_of(drawn: list[dict[str, Any]], schema: RecordSchema = THREE_FIELDS) -> SampleBatch:
    buffer = ColumnBuffer(schema)
    for row in drawn:
        buffer.append_row(**row)
    return SampleBatch.from_buffer(buffer)


def same_number(one: float | None, other: float | None) -> bool:
    """Equal, with NaN equal to NaN and -0.0 unequal to 0.0."""
    if one is None or other is None:
        return one is other
    if math.isnan(one):
        return math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        same_number(one[name], other[name])
        if isinstance(one[name], float)
        else one[name] == other[name]
        for name in one
    )


TYPED = RecordSchema(
    (
        Field("Flow", "float"),
        Field("Count", "int"),
        Field("Open", "bool"),
        Field("Gas", "text"),
        Field("Calibrated", "timestamp"),
    )
)
MOMENT = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)


def typed_batch() -> SampleBatch:
    """A row with a value of every kind, an empty one, and one with values of other kinds."""
    buffer = ColumnBuffer(TYPED)
    buffer.append_result(
        "a",
        None,
        reply({"Flow": 1.5, "Count": 2**53 + 1, "Open": True, "Gas": "N2", "Calibrated": MOMENT}),
    )
    buffer.append_result("a", None, reply({}))
    buffer.append_result(
        "a", None, reply({"Flow": True, "Count": 2.0, "Open": "ajar", "Gas": 8, "Calibrated": 3})
    )
    return SampleBatch.from_buffer(buffer)
