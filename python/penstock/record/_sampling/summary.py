"""The counts of a recording, kept while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class DeviceSummary:
    """The counts of one device.

    Attributes:
        samples_emitted: rows, failed polls included, events not.
        samples_late: slots that were skipped because their whole period had passed before the poll
            could begin.
        samples_dropped: rows that the overflow policy has dropped.
        errors: failed polls, with and without a row.
        repeated: failed polls without a row, because a poll since the device's last answer had
            failed with the same code.
    """

    samples_emitted: int = 0
    samples_late: int = 0
    samples_dropped: int = 0
    errors: int = 0
    repeated: int = 0


@dataclass(slots=True)
class SinkSummary:
    """The counts of one sink.

    Attributes:
        rows_written: rows that the sink has accepted.
        rows_dropped: rows that its full queue has dropped.
        error: the failure of the sink; None without one, and after the sink was reopened.
        replaced_by: the fallback that has written the rest, or the rows until the sink was back.
        failures: how often the sink has failed.
        rows_lost: rows that were queued for the sink when the recording ended.
    """

    rows_written: int = 0
    rows_dropped: int = 0
    error: str | None = None
    replaced_by: str | None = None
    failures: int = 0
    rows_lost: int = 0


@dataclass(slots=True)
class AcquisitionSummary:
    """The counts of a recording. They change while it runs, and are final after it.

    Attributes:
        started_at: the start (UTC).
        finished_at: the end (UTC); None while the recording runs.
        max_drift_ms: the longest delay of a poll after its slot was due, in milliseconds.
        devices: the counts of each device by its name.
        events: the rows that are events.
        events_dropped: events that the overflow policy has dropped.
        clock_steps: how often the wall clock was set.
        sinks: the counts of :func:`penstock.record.pipe` for each sink, by the sink's description.
        run_id: the id of the run.
    """

    started_at: datetime
    finished_at: datetime | None = None
    max_drift_ms: float = 0.0
    devices: dict[str, DeviceSummary] = field(default_factory=dict)
    events: int = 0
    events_dropped: int = 0
    clock_steps: int = 0
    sinks: dict[str, SinkSummary] = field(default_factory=dict)
    run_id: str = ""

    @property
    def samples_emitted(self) -> int:
        """Rows of all devices, failed polls included."""
        return sum(device.samples_emitted for device in self.devices.values())

    @property
    def samples_late(self) -> int:
        """Slots of all devices that were skipped."""
        return sum(device.samples_late for device in self.devices.values())

    @property
    def samples_dropped(self) -> int:
        """Rows of all devices that the overflow policy has dropped."""
        return sum(device.samples_dropped for device in self.devices.values())

    @property
    def errors(self) -> int:
        """Failed polls of all devices."""
        return sum(device.errors for device in self.devices.values())

    @property
    def repeated(self) -> int:
        """Failed polls of all devices that have no row of their own."""
        return sum(device.repeated for device in self.devices.values())

    def count_dropped(self, device: str) -> None:
        """Count a row of ``device`` that the overflow policy has dropped."""
        counts = self.devices.get(device)
        if counts is None:
            self.events_dropped += 1
        else:
            counts.samples_dropped += 1

    def as_dict(self) -> dict[str, object]:
        """The summary as JSON types, as it is written into the files' metadata."""
        return {
            "run_id": self.run_id,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "samples_emitted": self.samples_emitted,
            "samples_late": self.samples_late,
            "samples_dropped": self.samples_dropped,
            "errors": self.errors,
            "repeated": self.repeated,
            "events": self.events,
            "events_dropped": self.events_dropped,
            "clock_steps": self.clock_steps,
            "max_drift_ms": self.max_drift_ms,
            "devices": {
                name: {
                    "samples_emitted": device.samples_emitted,
                    "samples_late": device.samples_late,
                    "samples_dropped": device.samples_dropped,
                    "errors": device.errors,
                    "repeated": device.repeated,
                }
                for name, device in self.devices.items()
            },
            "sinks": {
                name: {
                    "rows_written": sink.rows_written,
                    "rows_dropped": sink.rows_dropped,
                    "error": sink.error,
                    "replaced_by": sink.replaced_by,
                    "failures": sink.failures,
                    "rows_lost": sink.rows_lost,
                }
                for name, sink in self.sinks.items()
            },
        }
