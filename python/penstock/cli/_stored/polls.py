"""The polls of one device in one run, in the order of the file: gaps, order, duplicates, rates.

They come piece by piece, and of those before only what the next ones need is kept. One thing needs
them all: whether a poll that was asked for no later than one above it is a duplicate of some row,
or only out of order. A recording in order has none. One that has some is read again, with the
moments that need it known.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from penstock.record.arrow import pyarrow_module

_TOLERANCE = 1.5
"""A poll may begin late within its period, and the next one on time."""
_SAME_RATE = 0.05
"""How far a rate may be from the one that the metadata tell."""
_STEADY = 0.01
_FEWEST_DISTANCES = 10


# The distances between polls, however many: counted by size, so that their memory is bounded.

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


@dataclass(slots=True)
class DeviceFindings:
    """What is known of one device.

    Attributes:
        samples, failed: its polls, and those that were not answered.
        missed_slots: those that the recorder has reported.
        gaps: slots that nothing in the file explains.
        longest_gap_s: the longest of them.
        out_of_order: samples that were asked for before the one above them.
        duplicates: samples that were asked for at the same moment as another, wherever that is.
        late: polls that began more than a millisecond after their slot. That is not a problem.
        expected_hz: the rate that the metadata tell, or, without one, that of most samples.
        rate_hz: the rate of the samples, where it is another.
    """

    samples: int = 0
    failed: int = 0
    missed_slots: int = 0
    gaps: int = 0
    longest_gap_s: float = 0.0
    out_of_order: int = 0
    duplicates: int = 0
    late: int = 0
    expected_hz: float | None = None
    rate_hz: float | None = None

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return (
            self.gaps + self.out_of_order + self.duplicates + (1 if self.rate_hz is not None else 0)
        )


@dataclass(slots=True)
class Polls:
    """The polls so far.

    Attributes:
        doubtful: the moments that may be there twice, as far as an earlier reading has found them.
        found: those that this reading has found.
        rate_hz: what the metadata tell.
        missed: the rows of events that stand for slots without a row, with their numbers.
    """

    doubtful: Any = None
    found: set[int] = field(default_factory=set)
    rate_hz: float | None = None
    missed: list[tuple[int, int]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _highest: int | None = None
    _last: tuple[int, int, int] | None = None
    _had_missed: bool = False
    _distances: Distances = field(default_factory=Distances)
    _explained: list[tuple[int, int]] = field(default_factory=list)

    def add(self, requested: Any, due: Any, rows: Any, counts: DeviceFindings) -> None:
        """Take a piece: when each was asked for, when it was due, and its row in the run."""
        compute = pyarrow_module("pyarrow.compute")
        self._note_doubtful(requested)
        if self.doubtful is not None:
            first = self._first_places(requested)
            counts.duplicates += len(requested) - len(first)
            requested, due, rows = (each.take(first) for each in (requested, due, rows))
        if not len(requested):
            return
        before = self._last
        if before is not None:
            requested, due, rows = (
                _behind(value, each)
                for value, each in zip(before, (requested, due, rows), strict=True)
            )
        counts.out_of_order += _count(compute, compute.less(_steps(compute, requested), 0))
        self._take_distances(due, rows, counts)
        self._last = tuple(each[-1].as_py() for each in (requested, due, rows))

    def end(self, counts: DeviceFindings) -> None:
        """The run has ended: judge what only all of it tells."""
        self._had_missed |= bool(self.missed)
        found, rate = self._distances, self.rate_hz
        if not found.count:
            return
        median = found.median
        if rate is None:
            rate = self._steady_rate(median)
            if rate is not None:
                self._count_gaps(rate, counts)
        elif found.count >= _FEWEST_DISTANCES and median > 0 and not self._had_missed:
            own = 1e9 / median
            if abs(own / rate - 1) > _SAME_RATE:
                counts.rate_hz = own
        if rate is not None:
            counts.expected_hz = rate

    def _note_doubtful(self, requested: Any) -> None:
        """Find moments that are not later than one above them."""
        compute = pyarrow_module("pyarrow.compute")
        if not len(requested):
            return
        whole = requested if self._highest is None else _behind(self._highest, requested)
        if _count(compute, compute.less_equal(_steps(compute, whole), 0)):
            highest = compute.cumulative_max(whole)
            late = compute.less_equal(whole.slice(1), highest.slice(0, len(whole) - 1))
            self.found.update(whole.slice(1).filter(late).to_pylist())
        self._highest = compute.max(whole).as_py()

    def _first_places(self, requested: Any) -> Any:
        """Where the moments stand of which there was none before."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        keep = [True] * len(requested)
        doubted = compute.indices_nonzero(compute.is_in(requested, value_set=self.doubtful))
        for place in doubted.to_pylist():
            moment = requested[place].as_py()
            keep[place] = moment not in self._seen
            self._seen.add(moment)
        return compute.indices_nonzero(pa.array(keep, pa.bool_()))

    def _take_distances(self, due: Any, rows: Any, counts: DeviceFindings) -> None:
        compute = pyarrow_module("pyarrow.compute")
        steps = _steps(compute, due)
        self.missed.sort()
        rate = self.rate_hz
        if rate is not None:
            self._distances.add(steps)
            limit = min(round(_TOLERANCE * 1e9 / rate), 2**63 - 1)
            far = compute.indices_nonzero(compute.greater(steps, limit))
            for place in far.to_pylist():
                slots = self._slots_between(rows[place].as_py(), rows[place + 1].as_py())
                _judge(steps[place].as_py(), slots, rate, counts)
        elif self.missed:
            # The rate is known at the end only, so distances with an explanation are kept apart.
            alone = [True] * len(steps)
            numbers = rows.to_pylist()
            for place in sorted({bisect_right(numbers, row) - 1 for row, _ in self.missed}):
                if 0 <= place < len(steps):
                    slots = self._slots_between(rows[place].as_py(), rows[place + 1].as_py())
                    self._explained.append((steps[place].as_py(), slots))
                    alone[place] = False
            self._distances.add(steps.filter(pyarrow_module().array(alone)))
        else:
            self._distances.add(steps)
        last = rows[-1].as_py()
        self._had_missed |= bool(self.missed)
        self.missed = [each for each in self.missed if each[0] > last]

    def _slots_between(self, begin: int, end: int) -> int:
        places = [row for row, _ in self.missed]
        first, stop = bisect_right(places, begin), bisect_right(places, end)
        return sum(slots for _, slots in self.missed[first:stop])

    def _steady_rate(self, median: int) -> float | None:
        """The rate of most samples, if they keep one; None otherwise."""
        found = self._distances
        if found.count < _FEWEST_DISTANCES or median <= 0:
            return None
        near = found.between((1 - _STEADY) * median, (1 + _STEADY) * median)
        return 1e9 / median if near >= 0.8 * found.count else None

    def _count_gaps(self, rate: float, counts: DeviceFindings) -> None:
        far = self._distances.above(_TOLERANCE * 1e9 / rate)
        counts.gaps += far
        if far:
            longest = self._distances.longest / 1e9
            counts.longest_gap_s = max(counts.longest_gap_s, longest)
        for distance, slots in self._explained:
            _judge(distance, slots, rate, counts)


def _judge(distance: int, slots: int, rate: float, counts: DeviceFindings) -> None:
    """Count a distance as a gap, unless the missed slots in it explain it."""
    distance -= round(slots * 1e9 / rate)
    if distance > _TOLERANCE * 1e9 / rate:
        counts.gaps += 1
        counts.longest_gap_s = max(counts.longest_gap_s, distance / 1e9)


def _behind(value: int, values: Any) -> Any:
    pa = pyarrow_module()
    return pa.concat_arrays([pa.array([value], values.type), values])


def _steps(compute: Any, values: Any) -> Any:
    return compute.subtract(values.slice(1), values.slice(0, max(0, len(values) - 1)))


def _count(compute: Any, found: Any) -> int:
    return int(compute.sum(found).as_py() or 0)
