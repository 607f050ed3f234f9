"""A running recording as Prometheus reads it: its text format, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/

No line has a time stamp: a value that is not there at the next scrape is then stale at once, and
not shown for five minutes more. So a device that does not answer has no values, and its age tells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import NumberColumn, TextColumn
from penstock.record._network.network_sink import NetworkSink
from penstock.record._sampling.summary import AcquisitionSummary, DeviceSummary, SinkSummary
from penstock.record.schema import RECORDER_FIELDS, RecordSchema
from penstock.record.sink import SinkBase

__all__ = ["LastValues", "recording_metrics"]


def recording_metrics(
    summary: AcquisitionSummary, last: LastValues, sinks: Iterable[NetworkSink] = ()
) -> str:
    """The page: the last values of each device, and the counts of the run. Any thread may call it.

    Args:
        summary: of the recording.
        last: the sink that has the last values.
        sinks: those of other machines, whose spools are shown.
    """
    page = _Page()
    rows = dict(sorted(last.rows.items()))
    page.family(
        "field_value",
        "gauge",
        "The last value of a field, in its unit; none while the device does not answer.",
        [
            ({"device": device, "field": name, "unit": unit or ""}, value)
            for device, row in rows.items()
            if row.ok
            for name, (value, unit) in row.values.items()
        ],
    )
    page.family(
        "device_up",
        "gauge",
        "Whether the device has answered its last poll.",
        [({"device": device}, float(row.ok)) for device, row in rows.items()],
    )
    page.family(
        "last_poll_timestamp_seconds",
        "gauge",
        "When the last poll of the device ended, since 1970.",
        [({"device": device}, row.t_utc_ns / 1e9) for device, row in rows.items()],
    )
    page.family(
        "latency_seconds",
        "gauge",
        "How long the last answer took.",
        [({"device": device}, row.latency_s) for device, row in rows.items() if row.ok],
    )
    polled = [({"device": name}, counts) for name, counts in [*summary.devices.items()]]
    of_device: tuple[tuple[str, str, Callable[[DeviceSummary], int]], ...] = (
        ("samples", "Rows, failed polls included.", lambda of: of.samples_emitted),
        ("errors", "Failed polls.", lambda of: of.errors + of.repeated),
        ("late", "Slots that were skipped.", lambda of: of.samples_late),
        ("dropped", "Rows that had no room.", lambda of: of.samples_dropped),
    )
    for name, text, count in of_device:
        counted = [(label, count(counts)) for label, counts in polled]
        page.family(f"{name}_total", "counter", text, counted)
    page.family("events_total", "counter", "Events in the recording.", [({}, summary.events)])
    written = [({"sink": name}, counts) for name, counts in [*summary.sinks.items()]]
    of_sink: tuple[tuple[str, str, Callable[[SinkSummary], int]], ...] = (
        ("rows_written", "Rows that the sink has accepted.", lambda of: of.rows_written),
        ("rows_dropped", "Rows without room in its queue.", lambda of: of.rows_dropped),
        ("failures", "Failures of the sink.", lambda of: of.failures),
    )
    for name, text, total in of_sink:
        totals = [(label, total(counts)) for label, counts in written]
        page.family(f"sink_{name}_total", "counter", text, totals)
    network: dict[str, list[NetworkSink]] = {}
    for sink in sinks:  # one server may have several
        network.setdefault(sink.server, []).append(sink)
    page.family(
        "sink_up",
        "gauge",
        "Whether the server takes rows.",
        [
            ({"server": name}, float(all(each.trouble is None for each in of)))
            for name, of in network.items()
        ],
    )
    page.family(
        "spool_rows",
        "gauge",
        "Rows of this run that the server does not have yet.",
        [({"server": n}, sum(each.rows_waiting for each in of)) for n, of in network.items()],
    )
    page.family(
        "refused_rows_total",
        "counter",
        "Rows that the server will never take.",
        [({"server": n}, sum(each.rows_refused for each in of)) for n, of in network.items()],
    )
    return page.text()


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]
    ) -> None:
        """Add a metric, unless it has no sample."""
        lines = [f"penstock_{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
        if lines:
            self._lines += [f"# HELP penstock_{name} {text}", f"# TYPE penstock_{name} {kind}"]
            self._lines += lines

    def text(self) -> str:
        """The page; Prometheus wants its last line ended, and no carriage return."""
        return "".join(f"{line}\n" for line in self._lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


# The newest row of each device of a running recording.

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
