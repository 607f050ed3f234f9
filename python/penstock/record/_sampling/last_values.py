"""The newest row of each device of a running recording."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import NumberColumn, TextColumn
from penstock.record.schema import RECORDER_FIELDS, RecordSchema
from penstock.record.sink import SinkBase

__all__ = ["LastRow", "LastValues"]

_NUMBERS = frozenset({"float", "int", "bool"})


@dataclass(frozen=True, slots=True)
class LastRow:
    """The newest poll of a device.

    Attributes:
        t_utc_ns: when its answer came, or was given up.
        seen: the same by the monotonic clock of this process, in seconds.
        latency_s: how long the answer took.
        ok: whether it was an answer.
        values: its numbers, by field, each with its unit.
    """

    t_utc_ns: int
    seen: float
    latency_s: float
    ok: bool
    values: Mapping[str, tuple[float, str | None]]


class LastValues(SinkBase):
    """A sink that keeps the newest row of each device, for whoever asks from time to time.

    Attributes:
        rows: by device. Any thread may read it: each row is replaced as a whole.
        schema: of the last batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, LastRow] = {}

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Nothing to reserve."""

    async def write_batch(self, batch: Any) -> None:
        """Take the newest rows of a batch."""
        if not isinstance(batch, SampleBatch):
            batch = SampleBatch.from_arrow(batch)
        devices = batch.raw("device")
        assert isinstance(devices, TextColumn)
        events = batch.raw("event") if batch.schema.kind_of("event") is not None else None
        left = set(range(len(devices.table)))
        for row in range(len(batch) - 1, -1, -1):
            code = devices.codes[row]
            if code in left and not (isinstance(events, TextColumn) and events.codes[row] >= 0):
                left.discard(code)
                self.rows = {**self.rows, devices.table[code]: _row_of(batch, row, code)}
                if not left:
                    return

    async def close(self) -> None:
        """Nothing to finish."""


def _row_of(batch: SampleBatch, row: int, code: int) -> LastRow:
    devices, error, stamps, latency = (
        batch.raw(name) for name in ("device", "error", "t_utc", "latency_s")
    )
    assert isinstance(devices, TextColumn)
    assert isinstance(error, TextColumn)
    device = devices.table[code]
    values = {}
    for field in batch.schema.fields:
        if field.name in RECORDER_FIELDS or field.kind not in _NUMBERS:
            continue
        column = batch.raw(field.name)
        if isinstance(column, NumberColumn) and column.valid[row]:
            unit = field.unit or dict(field.units).get(device)
            values[field.name] = float(column.data[row]), unit
    return LastRow(
        int(stamps[row]),  # type: ignore[index]
        time.monotonic(),
        float(latency[row]),  # type: ignore[index]
        error.codes[row] < 0,
        values,
    )
