"""What a recording came to, counted while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["AcquisitionSummary", "DeviceSummary"]


@dataclass(slots=True)
class DeviceSummary:
    """The counts of one device.

    ``samples_emitted`` counts rows, failed polls included; ``errors`` the failed polls among them;
    ``samples_late`` the slots that were skipped because their whole period had passed before the
    bus was free; ``samples_dropped`` the rows thrown away by the overflow policy.
    """

    samples_emitted: int = 0
    samples_late: int = 0
    samples_dropped: int = 0
    errors: int = 0


@dataclass(slots=True)
class AcquisitionSummary:
    """The counts of a recording; changes while it runs, final once ``finished_at`` is set.

    ``max_drift_ms`` is the latest start of a poll after its slot's due time, in milliseconds.
    """

    started_at: datetime
    finished_at: datetime | None = None
    max_drift_ms: float = 0.0
    devices: dict[str, DeviceSummary] = field(default_factory=dict)

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
        """Rows of all devices thrown away by the overflow policy."""
        return sum(device.samples_dropped for device in self.devices.values())

    @property
    def errors(self) -> int:
        """Failed polls of all devices."""
        return sum(device.errors for device in self.devices.values())

    def as_dict(self) -> dict[str, object]:
        """The summary as JSON types, as it is written into the files' metadata."""
        return {
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "samples_emitted": self.samples_emitted,
            "samples_late": self.samples_late,
            "samples_dropped": self.samples_dropped,
            "errors": self.errors,
            "max_drift_ms": self.max_drift_ms,
            "devices": {
                name: {
                    "samples_emitted": device.samples_emitted,
                    "samples_late": device.samples_late,
                    "samples_dropped": device.samples_dropped,
                    "errors": device.errors,
                }
                for name, device in self.devices.items()
            },
        }
