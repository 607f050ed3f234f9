"""Samples summed up by bins of 2**k nanoseconds: lowest, highest, first and last value.

A picture has some thousand columns of pixels, a recording may have 100 million samples. What a
column shows of them are the extremes, so no spike is lost, however short it is; the first and the
last value join a column to its neighbours. Bins begin at multiples of their width since 1970, and
the widths are powers of two: so bins of any two sources merge, and bins of one width are made of
those of any smaller width without an error.

Rejected: every n-th sample, which loses spikes; means, which flatten them; a fixed number of
samples for each bin, whose bins of two devices do not lie one above the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.record.arrow import pyarrow_module

__all__ = [
    "Bins",
    "GrowingEnvelope",
    "Numbers",
    "Times",
    "device_codes",
    "fold",
    "integers_of",
    "numbers_of",
    "plain_column",
]

Times: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]

_SEARCH_STEPS = 32
"""A search among a million samples costs less than a look at so many of them."""
WIDEST = 62
"""The highest power: one bin of 146 years."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins in order of time, each with at least one row; bins without a row are left out.

    Attributes:
        power: the width of a bin is ``2**power`` nanoseconds.
        number: of each bin: that of its first nanosecond since 1970 (UTC), divided by the width.
        low: the lowest value; NaN where no row has a value, as where every poll has failed.
        high: the highest value.
        first: the earliest value; where bins of two sources were merged, that of the earlier one.
        last: the latest value.
        count: how many values the bin has.
    """

    power: int
    number: Times
    low: Numbers
    high: Numbers
    first: Numbers
    last: Numbers
    count: Times

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def of(cls, t: Times, values: Numbers, power: int = 0) -> Bins:
        """The bins of samples in the order of recording.

        Args:
            t: the time of each sample in nanoseconds since 1970 (UTC), in any order.
            values: NaN where a sample has no value.
            power: of the width of the bins.
        """
        if bool((t[1:] < t[:-1]).any()):
            # The clock was set back. A stable sort keeps the order of recording at one moment.
            order = np.argsort(t, kind="stable")
            t, values = t[order], values[order]
        if len(t):
            bins = (int(t[-1]) >> power) - (int(t[0]) >> power) + 1
            # The lowest value is NaN if any is.
            if bins * _SEARCH_STEPS < len(t) and not math.isnan(values.min()):
                return cls._of_sorted(t, values, power, bins)
        has = ~np.isnan(values)
        return _folded(power, t >> power, values, values, values, values, has.astype(np.int64))

    @classmethod
    def _of_sorted(cls, t: Times, values: Numbers, power: int, bins: int) -> Bins:
        """Few bins of many samples in order, without gaps: a search for each border suffices."""
        number = np.arange(bins, dtype=np.int64) + (int(t[0]) >> power)
        borders = np.append(np.searchsorted(t, number << power), len(t))
        count = np.diff(borders)
        number, starts, ends = number[count > 0], borders[:-1][count > 0], borders[1:][count > 0]
        return cls(
            power,
            number,
            np.minimum.reduceat(values, starts),
            np.maximum.reduceat(values, starts),
            values[starts],
            values[ends - 1],
            count[count > 0],
        )

    @classmethod
    def empty(cls, power: int = 0) -> Bins:
        """No bins."""
        nothing = np.empty(0)
        none = np.empty(0, np.int64)
        return cls(power, none, nothing, nothing, nothing, nothing, none)

    @property
    def begin(self) -> Times:
        """The first nanosecond of each bin, since 1970 (UTC)."""
        return self.number << self.power

    @property
    def middle(self) -> Times:
        """The nanosecond in the middle of each bin; for ``power`` 0, the time of the sample."""
        return self.begin + ((1 << self.power) >> 1)

    def coarser(self, power: int) -> Bins:
        """The same samples in bins of a higher power; itself for its own."""
        if power == self.power:
            return self
        if power < self.power:
            raise ValueError(f"bins of 2**{self.power} ns cannot be divided into 2**{power} ns")
        return _folded(
            power,
            self.number >> (power - self.power),
            self.low,
            self.high,
            self.first,
            self.last,
            self.count,
        )

    def merged(self, later: Bins) -> Bins:
        """The bins of both, in the wider width of the two; ``later`` was recorded afterwards."""
        power = max(self.power, later.power)
        one, other = self.coarser(power), later.coarser(power)
        if not len(one) or not len(other):
            return one if len(one) else other
        pairs = zip(one.columns, other.columns, strict=True)
        low, high, first, last = (np.concatenate(pair) for pair in pairs)
        return _folded(
            power,
            np.concatenate((one.number, other.number)),
            low,
            high,
            first,
            last,
            np.concatenate((one.count, other.count)),
        )

    def of_at_most(self, limit: int) -> Bins:
        """The finest bins, not finer than these, of which there are at most ``limit``."""
        found = self
        while len(found) > limit:
            found = found.coarser(found.power + 1)
        return found

    @property
    def columns(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """``low``, ``high``, ``first`` and ``last``."""
        return self.low, self.high, self.first, self.last


class GrowingEnvelope:
    """The bins of samples that come in pieces, in bounded memory.

    The bins are as narrow as ``limit`` allows. While there are no more samples than that, each has
    a bin of its own, and its time is exact.

    Args:
        limit: the highest number of bins. There are at least half as many, if there are as many
            samples and they are spread evenly.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self.bins: Bins = Bins.empty()
        self.span: tuple[int, int] | None = None
        """The earliest and the latest time so far."""

    def add(self, t: Times, values: Numbers) -> None:
        """Add samples as :meth:`Bins.of` takes them."""
        if not len(t):
            return
        power = self.bins.power
        begin, end = int(t.min()), int(t.max())
        if len(t) > self._limit:
            # A bound that needs no look at each sample: the span has no more bins than this.
            power = max(power, ((end - begin) // self._limit).bit_length())
        if self.span is not None:
            begin, end = min(begin, self.span[0]), max(end, self.span[1])
        self.span = begin, end
        self.bins = self.bins.merged(Bins.of(t, values, min(power, WIDEST)))
        self.bins = self.bins.of_at_most(self._limit)


def fold(keys: NDArray[Any]) -> Times:
    """Where each run of equal ``keys`` begins, of keys in ascending order."""
    if not len(keys):
        return np.empty(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))


def _folded(
    power: int,
    number: Times,
    low: Numbers,
    high: Numbers,
    first: Numbers,
    last: Numbers,
    count: Times,
) -> Bins:
    """Rows with equal numbers made one, in their order."""
    if not len(number):
        return Bins.empty(power)
    if bool((number[1:] < number[:-1]).any()):
        # Two sources overlap. A stable sort keeps their order in a bin.
        order = np.argsort(number, kind="stable")
        number, low, high = number[order], low[order], high[order]
        first, last, count = first[order], last[order], count[order]
    starts = fold(number)
    if len(starts) == len(number):
        return Bins(power, number, low, high, first, last, count)
    ends = np.append(starts[1:], len(number))
    if count.all():
        firsts, lasts = first[starts], last[ends - 1]
        lows, highs = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    else:
        # fmin and fmax ignore NaN: a failed poll hides no value.
        lows, highs = np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)
        valid = np.flatnonzero(count)
        firsts, lasts = _at_valid(first, last, valid, starts, ends)
    return Bins(power, number[starts], lows, highs, firsts, lasts, np.add.reduceat(count, starts))


def _at_valid(
    first: Numbers, last: Numbers, valid: Times, starts: Times, ends: Times
) -> tuple[Numbers, Numbers]:
    """The first and the last value of each group that has one, NaN of the others."""
    firsts, lasts = np.full(len(starts), np.nan), np.full(len(starts), np.nan)
    if not len(valid):
        return firsts, lasts
    begin = np.searchsorted(valid, starts)
    end = np.searchsorted(valid, ends)
    has = end > begin
    firsts[has] = first[valid[begin[has]]]
    lasts[has] = last[valid[end[has] - 1]]
    return firsts, lasts


# Columns of an Arrow table of a recording as NumPy arrays, for pictures and pages.


def plain_column(column: Any) -> Any:
    """A column in one piece."""
    pa = pyarrow_module()
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        return column.chunk(0)  # combine_chunks would copy it
    column = column.combine_chunks()
    # For a table without rows, older versions return a chunked array nevertheless.
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def integers_of(column: Any) -> Times:
    """Whole numbers, or time stamps as nanoseconds."""
    pa = pyarrow_module()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz))
    found: Times = plain_column(column.cast(pa.int64())).to_numpy()
    return found


def device_codes(column: Any) -> tuple[NDArray[np.int16], list[str]]:
    """The device of each row as a number, and their names."""
    pa = pyarrow_module()
    plain = plain_column(column)
    if not pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_encode()
    # Numbers of 16 bits are sorted by radix, in a fifth of the time. No bus has 32,768 devices.
    codes = plain.indices.to_numpy(zero_copy_only=False).astype(np.int16)
    return codes, [str(text) for text in plain.dictionary.to_pylist()]


def numbers_of(table: Any, field: str) -> Numbers | None:
    """A column as floats, NaN where it has no number; None if there is no such column.

    A column that is a number in one part of a recording may be a text in another: texts that are
    numbers count.
    """
    if field not in table.column_names:
        return None
    pa = pyarrow_module()
    column = plain_column(table[field])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = pa.array(list(map(_number, encoded.dictionary.to_pylist())), pa.float64())
        column = known.take(encoded.indices)
    elif pa.types.is_timestamp(kind):
        return None
    found: Numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
