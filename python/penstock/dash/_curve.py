"""A device's value and setpoint over days, in bounded memory, thinned for a picture.

A month at 50 Hz has 130 million samples, a chart a few hundred pixels. The newest samples are kept
as they are; of older ones only the extremes of 8, of 64, of 512 and so on are kept, each level
bounded. So every moment since the start can be drawn, and a spike of one sample stays visible.
Rejected: every n-th sample, which loses the spike; reading the files for each zoom, which costs the
recorder's disk and cores as much as the recording itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Curve", "Points"]

Times: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]

_GROUP = 8
"""How many rows of a level become one of the next."""
_COARSE_ROWS = 8192
"""The rows of each level but the finest: 8 points for each pixel of a wide screen."""
_FIRST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Points:
    """Buckets of samples: the time of the first in nanoseconds since 1970, and the extremes.

    A bucket without a value, whose polls all failed, has NaN.
    """

    t: Times
    value_low: Numbers
    value_high: Numbers
    setpoint_low: Numbers
    setpoint_high: Numbers

    def __len__(self) -> int:
        return len(self.t)

    @property
    def columns(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        return self.value_low, self.value_high, self.setpoint_low, self.setpoint_high


class _Level:
    """Rows in order of time, the newest ``limit`` of them.

    The buffer is twice as long as the limit and is moved to its front when it is full, so that the
    rows are always contiguous and appending costs a constant time on average.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        rows = min(2 * limit, _FIRST_ROWS)
        self._t: Times = np.empty(rows, np.int64)
        self._columns: Numbers = np.empty((4, rows), np.float64)
        self._begin = 0
        self._end = 0
        self._ungrouped = 0
        self.has_dropped = False

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def t(self) -> Times:
        return self._t[self._begin : self._end]

    @property
    def columns(self) -> Numbers:
        return self._columns[:, self._begin : self._end]

    @property
    def ungrouped(self) -> int:
        """How many of the newest rows are not in the next level yet."""
        return self._ungrouped

    def covers(self, t: int) -> bool:
        """Whether every row from ``t`` on is still here."""
        return not self.has_dropped or (len(self) > 0 and bool(self._t[self._begin] <= t))

    @property
    def spacing(self) -> float:
        """The mean time between two rows in nanoseconds."""
        rows = len(self)
        return float(self._t[self._end - 1] - self._t[self._begin]) / max(1, rows - 1)

    def append(self, t: Times, columns: Numbers) -> None:
        """Add at most ``limit`` rows."""
        rows = len(t)
        if self._end + rows > len(self._t):
            self._make_room(rows)
        self._t[self._end : self._end + rows] = t
        self._columns[:, self._end : self._end + rows] = columns
        self._end += rows
        self._ungrouped += rows
        if len(self) > self._limit:
            self._begin = self._end - self._limit
            self.has_dropped = True

    def take_groups(self) -> tuple[Times, Numbers] | None:
        """The complete groups that are not in the next level yet, merged."""
        groups = self._ungrouped // _GROUP
        if not groups:
            return None
        begin = self._end - self._ungrouped
        end = begin + groups * _GROUP
        self._ungrouped -= groups * _GROUP
        grouped = self._columns[:, begin:end].reshape(4, groups, _GROUP)
        # fmin and fmax ignore NaN: a failed poll hides no value.
        low = np.fmin.reduce(grouped[::2], axis=2)
        high = np.fmax.reduce(grouped[1::2], axis=2)
        columns = np.empty((4, groups))
        columns[::2], columns[1::2] = low, high
        return self._t[begin:end:_GROUP].copy(), columns

    def _make_room(self, rows: int) -> None:
        kept = len(self)
        wanted = min(max(2 * (kept + rows), _FIRST_ROWS), 2 * self._limit)
        t, columns = self._t, self._columns
        if wanted > len(t):
            self._t = np.empty(wanted, np.int64)
            self._columns = np.empty((4, wanted), np.float64)
        self._t[:kept] = t[self._begin : self._end]
        self._columns[:, :kept] = columns[:, self._begin : self._end]
        self._begin, self._end = 0, kept


class Curve:
    """The history of one device.

    Args:
        raw_rows: how many samples are kept as they are; at least 64.
    """

    def __init__(self, raw_rows: int = 65_536) -> None:
        self._raw_rows = max(64, raw_rows)
        self._levels = [_Level(self._raw_rows)]
        self.rows = 0
        """The samples so far."""

    @property
    def first(self) -> int | None:
        """The time of the first sample in nanoseconds since 1970."""
        top = self._levels[-1] if len(self._levels[-1]) else self._levels[0]
        return int(top.t[0]) if self.rows else None

    @property
    def last(self) -> int | None:
        """The time of the newest sample."""
        return int(self._levels[0].t[-1]) if self.rows else None

    @property
    def period(self) -> float:
        """The mean time between the newest samples in seconds; 0 with fewer than three."""
        t = self._levels[0].t[-64:]
        return float(t[-1] - t[0]) / (len(t) - 1) / 1e9 if len(t) > 2 else 0.0

    def append(self, t: Times, value: Numbers, setpoint: Numbers) -> None:
        """Add samples in the order of recording; NaN where there is no value.

        The wall clock may be set back while a recording runs. Times are then drawn as the latest
        one before: a chart has one time axis, and the rows are in their order.
        """
        step = min(self._raw_rows // 2, _COARSE_ROWS // 2)
        for begin in range(0, len(t), step):
            self._append(
                t[begin : begin + step], value[begin : begin + step], setpoint[begin : begin + step]
            )

    def _append(self, t: Times, value: Numbers, setpoint: Numbers) -> None:
        last = self.last
        if last is not None and t[0] < last:
            t = np.maximum(t, last)
        t = np.maximum.accumulate(t)
        self.rows += len(t)
        self._levels[0].append(t, np.stack([value, value, setpoint, setpoint]))
        number = 0
        while (groups := self._levels[number].take_groups()) is not None:
            number += 1
            if number == len(self._levels):
                self._levels.append(_Level(_COARSE_ROWS))
            self._levels[number].append(*groups)

    def query(self, begin: int, end: int, width: int) -> Points:
        """The points from ``begin`` to ``end``, one for each ``width``; all in nanoseconds.

        A bucket begins at a multiple of ``width``, so repeated queries agree on the buckets. One
        point before and one behind the range are included: a line reaches the edges of a chart.
        Samples that are kept as they are, and lie further apart than ``width``, are returned as
        they are.
        """
        if not self.rows:
            nothing = np.empty(0)
            return Points(np.empty(0, np.int64), nothing, nothing, nothing, nothing)
        width = max(1, width)
        pieces = self._rows_between(begin, end, self._level_for(begin, width))
        t = np.concatenate([piece[0] for piece in pieces])
        columns = np.concatenate([piece[1] for piece in pieces], axis=1)
        buckets = t // width
        starts = np.flatnonzero(np.diff(buckets, prepend=buckets[:1] - 1))
        if len(starts) == len(t):
            return Points(t, *columns)
        return Points(
            t[starts],
            np.fmin.reduceat(columns[0], starts),
            np.fmax.reduceat(columns[1], starts),
            np.fmin.reduceat(columns[2], starts),
            np.fmax.reduceat(columns[3], starts),
        )

    def _level_for(self, begin: int, width: int) -> int:
        """The coarsest level that is fine enough, else the finest that reaches back to begin."""
        covering = [n for n, level in enumerate(self._levels) if level.covers(begin)]
        candidates = covering or [len(self._levels) - 1]
        chosen = candidates[0]
        for number in candidates[1:]:
            level = self._levels[number]
            if len(level) > 1 and level.spacing <= width / 2:
                chosen = number
        return chosen

    def _rows_between(self, begin: int, end: int, number: int) -> list[tuple[Times, Any]]:
        """Rows of a level; behind them, those of the finer ones that it does not have yet."""
        pieces = []
        level = self._levels[number]
        newest = level.t
        while True:
            low = max(0, int(np.searchsorted(newest, begin, "right")) - 1)
            high = min(len(newest), int(np.searchsorted(newest, end, "right")) + 1)
            offset = len(level) - len(newest)
            pieces.append((newest[low:high], level.columns[:, offset + low : offset + high]))
            if number == 0:
                return pieces
            number -= 1
            level = self._levels[number]
            newest = level.t[len(level) - level.ungrouped :]
