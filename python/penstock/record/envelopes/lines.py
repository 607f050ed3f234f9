"""The line that draws an envelope: no pixel that a sample would mark stays empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.record.envelopes.bins import Bins, Numbers, Times

__all__ = ["Line", "line_of"]

_POINTS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """Points in order of time; NaN ends a line, and the next value begins another.

    Attributes:
        t: nanoseconds since 1970 (UTC).
        values: of the quantity.
        isolated: which points have no neighbour, so that only a dot shows them.
    """

    t: Times
    values: Numbers
    isolated: Times


def line_of(bins: Bins, gap_ns: int | None = None) -> Line:
    """The line through a curve's bins.

    A bin of one value is one point. One of several is four: the first, the lowest, the highest and
    the last value, side by side within the bin. A bin without a value is a gap, and so is a time
    longer than ``gap_ns`` without a bin.
    """
    rows = len(bins)
    width = 1 << bins.power
    several = bins.count > 1
    rising = bins.last >= bins.first
    grid = np.stack(
        (
            bins.first,
            np.where(rising, bins.low, bins.high),
            np.where(rising, bins.high, bins.low),
            bins.last,
        ),
        axis=1,
    )
    # Between the points of a bin lies a quarter of its width. A point alone is in the middle.
    steps = np.array([1, 3, 5, 7]) * (width // 8)
    times = bins.begin[:, None] + np.where(several[:, None], steps, width >> 1)
    is_point = np.ones((rows, _POINTS + 1), bool)
    is_point[:, 1:_POINTS] = several[:, None]
    is_point[:, _POINTS] = False
    if gap_ns is not None and rows > 1:
        apart = np.diff(bins.begin) - width
        is_point[:-1, _POINTS] = apart > gap_ns
    t = np.concatenate((times, times[:, -1:]), axis=1)[is_point]
    values = np.concatenate((grid, np.full((rows, 1), np.nan)), axis=1)[is_point]
    none = np.isnan(values)
    before = np.concatenate(([True], none[:-1]))[: len(none)]
    behind = np.concatenate((none[1:], [True]))[: len(none)]
    return Line(t, values, np.flatnonzero(~none & before & behind))
