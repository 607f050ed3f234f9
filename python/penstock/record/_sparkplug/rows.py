"""Rows as the spool keeps them until they are Sparkplug's.

Which alias a field has is known only when it is sent, because a birth gives it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.rows import RowNumbers
from penstock.record._sparkplug.payload import DataType
from penstock.record.schema import RECORDER_FIELDS

__all__ = ["SparkplugRow", "SparkplugRows", "rows_of"]

_TYPES = {
    "float": DataType.DOUBLE,
    "int": DataType.INT64,
    "bool": DataType.BOOLEAN,
    "text": DataType.STRING,
    "timestamp": DataType.INT64,
}


@dataclass(frozen=True, slots=True)
class SparkplugRow:
    """A row of a device: its stamp in nanoseconds, and each metric with its type, unit, value."""

    device: str
    t_utc_ns: int
    metrics: dict[str, tuple[int, str | None, Any]]


class SparkplugRows:
    """An :class:`~penstock.record._network.protocol.Encoder`."""

    kind = b"SPB1"

    def __init__(self) -> None:
        self.size = 0
        self._numbers = RowNumbers()
        self._lines: list[str] = []

    def add(self, batch: SampleBatch) -> None:
        fields = batch.schema.fields
        columns = {field.name: batch.column(field.name) for field in fields}
        fixed = {name: batch.column(name) for name in ("device", "t_utc", "t_mono_ns")}
        status, error = batch.column("status"), batch.column("error")
        devices: Any = batch.raw("device")
        numbers = self._numbers.take(devices.codes, devices.table)
        for row in range(len(batch)):
            device = fixed["device"][row]
            metrics: dict[str, list[Any]] = {
                "run": [DataType.STRING, None, self._numbers.run],
                "row": [DataType.INT64, None, numbers[row]],
                "t_utc_ns": [DataType.INT64, "ns", fixed["t_utc"][row]],
                "t_mono_ns": [DataType.INT64, "ns", fixed["t_mono_ns"][row]],
                "status": [DataType.STRING, None, status[row]],
                "error": [DataType.STRING, None, error[row]],
            }
            for field in fields:
                value = columns[field.name][row]
                if value is None and field.name in RECORDER_FIELDS:
                    continue
                if isinstance(value, float) and not math.isfinite(value):
                    value = None
                unit = field.unit or dict(field.units).get(device)
                metrics[field.name] = [_TYPES[field.kind], unit, value]
            line = json.dumps([device, fixed["t_utc"][row], metrics])
            self._lines.append(line)
            self.size += len(line)

    def take(self) -> list[tuple[int, bytes]]:
        if not self._lines:
            return []
        lines, self._lines, self.size = self._lines, [], 0
        return [(len(lines), zlib.compress("\n".join(lines).encode(), 1))]


def rows_of(payload: bytes) -> Iterator[SparkplugRow]:
    """The rows of a payload of the spool."""
    for line in zlib.decompress(payload).split(b"\n"):
        device, stamp, metrics = json.loads(line)
        yield SparkplugRow(device, stamp, {name: tuple(each) for name, each in metrics.items()})
