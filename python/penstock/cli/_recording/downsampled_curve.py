"""A device's values over a whole run, downsampled in bounded memory, for the plot.

A run of weeks has millions of samples, a plot a few thousand pixels. Each point is a bucket of
neighbouring samples with their extremes. When all buckets are used, pairs of neighbours are merged.
So a spike of one sample stays visible in a run of any length. Keeping every n-th sample was
rejected because it would lose the spike.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bucket", "DownsampledCurve"]


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
