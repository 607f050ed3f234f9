"""The distances between polls, however many: counted by size, so that their memory is bounded."""

from __future__ import annotations

import math
from typing import Any

from penstock.record.arrow import pyarrow_module

__all__ = ["Distances"]

_BINS_AN_E = 2000
"""Bins are 0.05 % wide."""


class Distances:
    """Distances in nanoseconds, of which those within 0.05 % of each other are one.

    Each bin keeps its least distance: those of a steady clock are all the same, and come back
    exactly.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0
        self._not_positive = 0
        self._bins: dict[int, tuple[int, int]] = {}  # how many, and the least

    def add(self, distances: Any) -> None:
        """Add an Arrow array of int64."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        if not len(distances):
            return
        self.count += len(distances)
        self.longest = max(self.longest, compute.max(distances).as_py())
        positive = distances.filter(compute.greater(distances, 0))
        self._not_positive += len(distances) - len(positive)
        if not len(positive):
            return
        # A damaged stamp makes distances beyond 2^53, which need not be exact.
        logarithms = compute.ln(positive.cast(pa.float64(), safe=False))
        places = compute.floor(compute.multiply(logarithms, float(_BINS_AN_E)))
        table = pa.table({"place": places.cast(pa.int64()), "distance": positive})
        # Threads take longer to begin than one takes for a piece.
        groups = table.group_by("place", use_threads=False)
        grouped = groups.aggregate([("distance", "count"), ("distance", "min")])
        for place, count, least in zip(
            grouped["place"].to_pylist(),
            grouped["distance_count"].to_pylist(),
            grouped["distance_min"].to_pylist(),
            strict=True,
        ):
            before = self._bins.get(place, (0, least))
            self._bins[place] = (before[0] + count, min(before[1], least))

    @property
    def median(self) -> int:
        """The middle one, or the lower of two; 0 or less if that is not positive."""
        left = (self.count - 1) // 2 - self._not_positive
        if left < 0:
            return 0
        for _, (count, least) in sorted(self._bins.items()):
            if left < count:
                return least
            left -= count
        return 0

    def between(self, low: float, high: float) -> int:
        """How many are positive and lie from ``low`` to ``high``."""
        return sum(count for count, least in self._bins.values() if low <= least <= high)

    def above(self, limit: float) -> int:
        """How many are longer than ``limit``."""
        return self.between(math.nextafter(limit, math.inf), math.inf)
