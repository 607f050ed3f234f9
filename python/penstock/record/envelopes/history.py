"""The newest samples of a device as they are, and the extremes of older ones, in bounded memory.

A month at 50 Hz has 130 million samples, a chart a few hundred columns of pixels. The newest rows
are kept whole. Older ones are kept as the lowest and the highest value of bins, in levels: each has
bins eight times as wide as those of the one before it, and a bounded number of them. So every
moment since the start can be drawn, and a spike of one sample stays visible.

The bins are those of :mod:`penstock.record.envelopes.bins`: 2**k nanoseconds wide, at multiples of
their width since 1970, so a live page and a picture of the same recording show the same extremes.
Rejected: a :class:`~penstock.record.envelopes.bins.Bins` for each level and column, which would
keep the same numbers of bins for each column, and four values where two are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.record.envelopes.bins import WIDEST, Numbers, Times, fold

__all__ = ["Extremes", "History", "power_within"]

_WIDER = 3
"""The bins of a level are 2**3 times as wide as those of the one before it."""
_COARSE_BINS = 8192
"""The bins of each level: 8 for each column of pixels of a wide screen."""
_FIRST_ROWS = 256
_FOLDED_ROWS = 512
"""So many rows of a level wait before they are summed up: fewer and larger steps of NumPy."""
_FEWEST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Extremes:
    """What a stretch of one column shows: points in order of time, each of a bin.

    Attributes:
        t: nanoseconds since 1970 (UTC): of the sample, if the bin has one only, else the middle.
        low: the lowest value; NaN where no row has one, as where every poll has failed.
        high: the highest value.
        end: the first nanosecond of the last bin, which further samples may change; 0 without bins.
    """

    t: Times
    low: Numbers
    high: Numbers
    end: int = 0

    def __len__(self) -> int:
        return len(self.t)

    def since(self, t: int) -> Extremes:
        """The points from ``t`` on."""
        first = int(np.searchsorted(self.t, t))
        return Extremes(self.t[first:], self.low[first:], self.high[first:], self.end)

    def without_long_gaps(self) -> Extremes:
        """The same picture without empty points that follow an empty point."""
        empty = np.isnan(self.low)
        keep = ~(empty & np.concatenate(([True], empty[:-1]))[: len(empty)])
        return Extremes(self.t[keep], self.low[keep], self.high[keep], self.end)


def power_within(width: int) -> int:
    """The power of the widest bins that are not wider than ``width`` nanoseconds."""
    return min(max(1, width).bit_length() - 1, WIDEST)


class _Level:
    """Rows in order of time, the newest of them; those of one level are bins of one width.

    The buffers are up to twice as long as the limit and are moved to their front when they are
    full, so rows are always contiguous, and appending costs a constant time on average. Of samples,
    which are their own extremes, ``low`` and ``high`` are the same buffer.
    """

    def __init__(self, columns: int, power: int, limit: int, *, of_samples: bool) -> None:
        self.power = power
        self.limit = limit
        self._of_samples = of_samples
        self._t: Times = np.empty(_FIRST_ROWS, np.int64)
        self._low: Numbers = np.empty((columns, _FIRST_ROWS))
        self._high = self._low if of_samples else np.empty((columns, _FIRST_ROWS))
        self._begin = 0
        self._end = 0
        self._waiting = 0
        self._has_dropped = False

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def t(self) -> Times:
        """The time of each sample, or the first nanosecond of each bin."""
        return self._t[self._begin : self._end]

    @property
    def low(self) -> Numbers:
        return self._low[:, self._begin : self._end]

    @property
    def high(self) -> Numbers:
        return self._high[:, self._begin : self._end]

    @property
    def waiting(self) -> int:
        """How many of the newest rows are not in the next level yet."""
        return self._waiting

    def covers(self, t: int) -> bool:
        """Whether every row from ``t`` on is still here."""
        return not self._has_dropped or (len(self) > 0 and bool(self._t[self._begin] <= t))

    def add_column(self) -> None:
        """Begin another column; the rows so far have no value in it."""
        empty = np.full((1, self._low.shape[1]), np.nan)
        self._low = np.concatenate((self._low, empty))
        self._high = self._low if self._of_samples else np.concatenate((self._high, empty))

    def append(self, t: Times, low: Numbers, high: Numbers) -> None:
        """Add at most ``limit`` rows; more of the last bin widen it."""
        if not self._of_samples and len(self) and len(t) and t[0] == self._t[self._end - 1]:
            last = self._end - 1
            self._low[:, last] = np.fmin(self._low[:, last], low[:, 0])
            self._high[:, last] = np.fmax(self._high[:, last], high[:, 0])
            t, low, high = t[1:], low[:, 1:], high[:, 1:]
        rows = len(t)
        if self._end + rows > len(self._t):
            self._make_room(rows)
        place = slice(self._end, self._end + rows)
        self._t[place] = t
        self._low[:, place] = low
        if not self._of_samples:
            self._high[:, place] = high
        self._end += rows
        self._waiting += rows
        if len(self) > self.limit:
            self._begin = self._end - self.limit
            self._has_dropped = True

    def take(self, power: int) -> tuple[Times, Numbers, Numbers]:
        """The bins of this power that are not in the next level yet.

        Bins that can get more rows wait, as long as there is room for their rows.
        """
        begin = self._end - self._waiting
        numbers = self._t[begin : self._end] >> power
        rows = int(np.searchsorted(numbers, numbers[-1]))
        if not rows and self._waiting > self.limit // 2:
            # The last bin of a level waits always: it may still be widened.
            rows = self._waiting if self._of_samples else self._waiting - 1
        self._waiting -= rows
        place = slice(begin, begin + rows)
        starts = fold(numbers[:rows])
        if not len(starts):
            return numbers[:0], self._low[:, :0], self._high[:, :0]
        # fmin and fmax ignore NaN: a failed poll hides no value.
        low = np.fmin.reduceat(self._low[:, place], starts, axis=1)
        high = np.fmax.reduceat(self._high[:, place], starts, axis=1)
        return numbers[starts] << power, low, high

    def usual_distance(self) -> int:
        """The median time between two rows in nanoseconds."""
        return int(np.median(np.diff(self.t))) if len(self) > 1 else 1

    def _make_room(self, rows: int) -> None:
        kept = len(self)
        wanted = max(2 * (kept + rows), _FIRST_ROWS)
        wanted = min(wanted, 2 * self.limit) if kept + rows <= 2 * self.limit else kept + rows
        place = slice(self._begin, self._end)
        self._t = _moved(self._t, place, wanted)
        self._low = _moved(self._low, place, wanted)
        self._high = self._low if self._of_samples else _moved(self._high, place, wanted)
        self._begin, self._end = 0, kept


class History:
    """The columns of one device. For one thread at a time.

    Args:
        numbers: how many numbers of samples are kept as they are, the times among them.
    """

    def __init__(self, numbers: int = 1_000_000) -> None:
        self._numbers = numbers
        self._columns: dict[str, int] = {}
        self._levels = [_Level(0, 0, max(_FEWEST_ROWS, numbers), of_samples=True)]
        self.rows: int = 0
        """The samples so far."""
        self.first: int | None = None
        """The time of the first sample in nanoseconds since 1970 (UTC)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the columns so far."""
        return tuple(self._columns)

    @property
    def last(self) -> int | None:
        """The time of the newest sample."""
        return int(self._levels[0].t[-1]) if self.rows else None

    @property
    def period(self) -> float:
        """The mean time between the newest samples in seconds; 0 with fewer than three."""
        t = self._levels[0].t[-64:]
        return float(t[-1] - t[0]) / (len(t) - 1) / 1e9 if len(t) > 2 else 0.0

    def append(self, t: Times, columns: Mapping[str, Numbers]) -> None:
        """Add samples in the order of recording.

        The wall clock may be set back while a recording runs. Times are then drawn as the latest
        one before: a page has one time axis, and the rows are in their order.

        Args:
            t: nanoseconds since 1970 (UTC).
            columns: the values by column, NaN where there is none. A column that is missing has no
                value in these rows.
        """
        if not len(t):
            return
        for key in columns:
            if key not in self._columns:
                self._add_column(key)
        values = np.full((len(self._columns), len(t)), np.nan)
        for key, numbers in columns.items():
            values[self._columns[key]] = numbers
        last = self.last
        t = np.maximum.accumulate(t if last is None else np.maximum(t, last))
        if self.first is None:
            self.first = int(t[0])
        step = _FEWEST_ROWS // 2
        for begin in range(0, len(t), step):
            rows = slice(begin, begin + step)
            self._append(t[rows], values[:, rows])

    def envelope(self, key: str, begin: int, end: int, width: int) -> Extremes:
        """The extremes of one column from ``begin`` to ``end``, in nanoseconds since 1970 (UTC).

        One point before and one after the range are included, so a line reaches the edges of a
        chart.

        Args:
            key: a column; one that is not known has no points.
            begin: the first nanosecond.
            end: the last one.
            width: the bins are not wider than this where the rows that are still there allow it,
                and more than half as wide. Samples further apart are returned as they are.
        """
        column = self._columns.get(key)
        if column is None or not self.rows:
            return Extremes(np.empty(0, np.int64), np.empty(0), np.empty(0))
        power = power_within(width)
        number = self._level_for(begin, power)
        power = max(power, self._levels[number].power)
        pieces = self._rows_between(begin, end, number, column)
        t, low, high = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        # What the finest level has come last, and is exact.
        exact = np.arange(len(t)) >= len(t) - len(pieces[-1][0])
        numbers = t >> power
        starts = fold(numbers)
        alone = np.diff(np.append(starts, len(t))) == 1
        middles = (numbers[starts] << power) + ((1 << power) >> 1)
        points = np.where(alone & exact[starts], t[starts], middles)
        bin_begin = int(numbers[-1]) << power if len(numbers) else 0
        if len(starts) < len(t):
            low, high = np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)
        return Extremes(points, low, high, bin_begin)

    def _add_column(self, key: str) -> None:
        self._columns[key] = len(self._columns)
        for level in self._levels:
            level.add_column()
        raw = self._levels[0]
        raw.limit = max(_FEWEST_ROWS, self._numbers // (1 + len(self._columns)))

    def _append(self, t: Times, values: Numbers) -> None:
        self.rows += len(t)
        self._levels[0].append(t, values, values)
        number = 0
        while self._levels[number].waiting >= _FOLDED_ROWS:
            level = self._levels[number]
            number += 1
            if number == len(self._levels):
                power = level.power + _WIDER
                if level.power == 0:
                    power = power_within(level.usual_distance()) + _WIDER
                power = min(power, WIDEST)
                made = _Level(len(self._columns), power, _COARSE_BINS, of_samples=False)
                self._levels.append(made)
            above = self._levels[number]
            above.append(*level.take(above.power))

    def _level_for(self, begin: int, power: int) -> int:
        """The coarsest level that is fine enough, else the finest that reaches back to begin."""
        covering = [n for n, level in enumerate(self._levels) if level.covers(begin)]
        candidates = covering or [len(self._levels) - 1]
        fine = [n for n in candidates if self._levels[n].power <= power and len(self._levels[n])]
        return fine[-1] if fine else candidates[0]

    def _rows_between(
        self, begin: int, end: int, number: int, column: int
    ) -> list[tuple[Times, Numbers, Numbers]]:
        """Rows of a level; after them, those of the finer ones that it does not have yet."""
        pieces = []
        first = 0
        while True:
            level = self._levels[number]
            t = level.t[first:]
            low = first + max(0, int(np.searchsorted(t, begin, "right")) - 1)
            high = first + min(len(t), int(np.searchsorted(t, end, "right")) + 1)
            rows = slice(low, high)
            pieces.append((level.t[rows], level.low[column, rows], level.high[column, rows]))
            if number == 0:
                return pieces
            number -= 1
            finer = self._levels[number]
            first = len(finer) - finer.waiting


def _moved(buffer: Any, place: slice, length: int) -> Any:
    """The last axis of ``buffer`` cut to ``place``, at the front of a buffer of this length."""
    kept = buffer[..., place]
    if length <= buffer.shape[-1]:
        buffer[..., : kept.shape[-1]] = kept.copy()
        return buffer
    made = np.empty((*buffer.shape[:-1], length), buffer.dtype)
    made[..., : kept.shape[-1]] = kept
    return made
