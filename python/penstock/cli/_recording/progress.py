"""The state of a run: counts and last values, updated by every poll.

Plain data without I/O: the live table, the lines, the summary and the plot read it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.cli._recording.plan import DevicePlan
from penstock.record.shown_quantity import Quantity

RECENT_SECONDS = 20
"""How many seconds the live curves show."""


# A device's values over a whole run, downsampled in bounded memory, for the plot.
#
# A run of weeks has millions of samples, a plot a few thousand pixels. Each point is a bucket of
# neighbouring samples with their extremes. When all buckets are used, pairs of neighbours are
# merged. So a spike of one sample stays visible in a run of any length. Keeping every n-th sample
# was rejected because it would lose the spike.


@dataclass(slots=True)
class Bucket:
    """Neighbouring samples: time of the first in seconds, extremes, sum, last setpoint, count.

    A ``count`` of 0 marks a gap: a failed poll, across which no line may be drawn.
    """

    at: float
    low: float
    high: float
    total: float
    setpoint: float | None
    count: int

    @property
    def mean(self) -> float:
        return self.total / self.count

    def absorb(self, other: Bucket) -> None:
        """Merge the samples of ``other``, which follows this bucket."""
        if self.count == 0:
            self.low, self.high = other.low, other.high
        elif other.count:
            self.low = min(self.low, other.low)
            self.high = max(self.high, other.high)
        if other.count:
            self.setpoint = other.setpoint
        self.total += other.total
        self.count += other.count


class DownsampledCurve:
    """At most ``2 * half`` buckets; all but the last hold the same number of samples."""

    def __init__(self, half: int = 1024) -> None:
        self._half = half
        self._per_bucket = 1
        self._filled = 0
        self.buckets: list[Bucket] = []

    @property
    def per_bucket(self) -> int:
        """The number of samples in a bucket: 1 while the run is short."""
        return self._per_bucket

    def add(self, at: float, value: float, setpoint: float | None) -> None:
        """Append a sample."""
        self._append(Bucket(at, value, value, value, setpoint, 1))

    def gap(self, at: float) -> None:
        """Append a failed poll."""
        self._append(Bucket(at, 0.0, 0.0, 0.0, None, 0))

    def _append(self, bucket: Bucket) -> None:
        if self._filled % self._per_bucket and self.buckets:
            self.buckets[-1].absorb(bucket)
        else:
            if len(self.buckets) == 2 * self._half:
                self._halve()
            self.buckets.append(bucket)
            self._filled = 0
        self._filled += 1

    def _halve(self) -> None:
        for left, right in zip(self.buckets[::2], self.buckets[1::2], strict=True):
            left.absorb(right)
        self.buckets = self.buckets[::2]
        self._per_bucket *= 2


@dataclass(slots=True)
class DeviceProgress:
    """The state of one device in a run.

    ``samples`` counts rows including failed polls, ``errors`` the failed polls, ``repeated`` those
    of them without a row, and ``late`` the skipped slots. These are the recorder's own counts, so
    they agree with the files.
    ``error`` is the newest poll's error, None after an answer; ``last_error`` is never cleared.
    ``absent``: it has not answered at all. ``alarms`` are those that last.
    """

    plan: DevicePlan
    quantity: Quantity | None = None
    value: float | None = None
    setpoint: float | None = None
    status: str = ""
    error: str | None = None
    absent: bool = False
    alarms: int = 0
    last_error: str | None = None
    samples: int = 0
    errors: int = 0
    repeated: int = 0
    late: int = 0
    worst_latency_s: float = 0.0
    curve: DownsampledCurve = field(default_factory=DownsampledCurve)
    recent: deque[float | None] = field(default_factory=lambda: deque(maxlen=RECENT_SECONDS))
    """The value at each of the last whole seconds; None where the poll had failed."""

    @property
    def unit(self) -> str:
        return (self.quantity.unit or "") if self.quantity is not None else ""

    def answered(
        self,
        *,
        at: float,
        value: float | None,
        setpoint: float | None,
        status: str,
        latency_s: float,
    ) -> None:
        """Record an answer that arrived ``at`` seconds after the start."""
        self.value = value
        self.setpoint = setpoint
        self.status = status
        self.error = None
        self.absent = False
        self.worst_latency_s = max(self.worst_latency_s, latency_s)
        if value is not None:
            self.curve.add(at, value, setpoint)

    def failed(self, *, at: float, error: str) -> None:
        """Record a poll that failed ``at`` seconds after the start.

        The last value stays visible; the status marks it as old.
        """
        self.error = self.last_error = error
        self.curve.gap(at)


@dataclass(slots=True)
class Progress:
    """The state of a run. ``alarms`` counts those that have begun.

    ``safe_states`` says what became of the safe states at the end; ``unsafe`` are the devices that
    have not reached theirs.
    """

    devices: dict[str, DeviceProgress]
    rate_hz: float
    duration: float | None
    elapsed: float = 0.0
    max_drift_ms: float = 0.0
    failed_steps: list[str] = field(default_factory=list)
    alarms: int = 0
    safe_states: list[str] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)
    remembered_s: int = -1

    def remember(self) -> None:
        """Keep the present values for the live curves, once a second."""
        if int(self.elapsed) > self.remembered_s:
            self.remembered_s = int(self.elapsed)
            for device in self.devices.values():
                device.recent.append(device.value if device.error is None else None)

    @property
    def samples(self) -> int:
        return sum(device.samples for device in self.devices.values())

    @property
    def errors(self) -> int:
        return sum(device.errors for device in self.devices.values())

    @property
    def repeated(self) -> int:
        return sum(device.repeated for device in self.devices.values())

    @property
    def late(self) -> int:
        return sum(device.late for device in self.devices.values())

    @property
    def counts(self) -> str:
        """``"800 samples, 2 late, 1 error"``."""
        return (
            f"{_counted(self.samples, 'sample')}, {self.late} late, "
            f"{_counted(self.errors, 'error')}"
        )

    @property
    def device_count(self) -> str:
        """``"4 devices"``."""
        return _counted(len(self.devices), "device")

    @property
    def worst_latency_s(self) -> float:
        return max((device.worst_latency_s for device in self.devices.values()), default=0.0)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
