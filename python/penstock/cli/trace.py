"""A device's course over a whole run in bounded memory, for the plot.

A run of weeks has millions of samples and a plot a few thousand pixels. Every point kept is a
bucket of neighbouring samples with their extremes, and when the buckets are all used, each two
become one. So a spike of one sample stays visible however long the run is, which keeping every
n-th sample would lose.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bucket", "Trace"]


@dataclass(slots=True)
class Bucket:
    """Neighbouring samples: seconds of the first, extremes and sum, last setpoint, count.

    ``count`` 0 marks a gap: a failed poll, over which no line may be drawn.
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
        """Take in the samples of *other*, which comes right after this one."""
        if self.count == 0:
            self.low, self.high = other.low, other.high
        elif other.count:
            self.low = min(self.low, other.low)
            self.high = max(self.high, other.high)
        if other.count:
            self.setpoint = other.setpoint
        self.total += other.total
        self.count += other.count


class Trace:
    """At most ``2 * half`` buckets, each of the same number of samples but the last."""

    def __init__(self, half: int = 1024) -> None:
        self._half = half
        self._per_bucket = 1
        self._filled = 0
        self.buckets: list[Bucket] = []

    @property
    def per_bucket(self) -> int:
        """How many samples a bucket holds now: 1 as long as the run is short."""
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
