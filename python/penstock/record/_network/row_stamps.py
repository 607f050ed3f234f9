"""A time stamp of its own for each row of a series.

For servers where two rows of one series and one stamp are one row.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from penstock._record import rising_stamps

__all__ = ["RowStamps"]

_REMEMBERED_ROWS = 1 << 20
_FEW_ROWS = 1024
_BEFORE_ALL = -(2**63)


class _Taken:
    """The remembered stamps of a series from ``lowest`` on, in order."""

    __slots__ = ("lowest", "most", "stamps")

    def __init__(self, lowest: int, stamps: list[int]) -> None:
        self.lowest = lowest
        self.stamps = stamps
        # Beyond it, most are of rows that are remembered no longer.
        self.most = 2 * len(stamps) + _FEW_ROWS

    def take(self, stamp: int) -> int:
        """The next stamp that is free; it is taken then."""
        place = bisect_left(self.stamps, stamp)
        while place < len(self.stamps) and self.stamps[place] == stamp:
            stamp += 1
            place += 1
        self.stamps.insert(place, stamp)
        return stamp


class RowStamps:
    """Moves a stamp that its series has already to the next nanosecond that is free.

    Nearly every stamp is behind all those of its series, and is left as it is. One that is not (two
    rows of one moment, or a clock that was set back) is compared with the last million rows.
    Rejected: the nanosecond behind the last one. After a clock was set back, all rows would have
    nearly one stamp, until it has caught up.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        # With a stamp that none of a batch is behind.
        self._batches: deque[tuple[int, array[int], array[int], Sequence[str]]] = deque()
        self._rows = 0
        # Of series whose clock was set back.
        self._taken: dict[str, _Taken] = {}

    def unique(self, stamps: array[int], codes: array[int], names: Sequence[str]) -> array[int]:
        """The stamps of rows whose series are ``names[code]``; another array where one moves.

        The arrays are kept, and must not change afterwards.
        """
        last = array("q", [self._last.get(name, _BEFORE_ALL) for name in names])
        moved: set[str] = set()
        first = rising_stamps(stamps, codes, last, 0)
        if first < len(codes):
            stamps = self._moved(stamps, codes, names, last, first, moved)
        for name in [name for name in self._taken if name not in moved and name in names]:
            del self._taken[name]  # its clock is ahead again
        self._last.update(zip(names, last, strict=True))
        self._remember(stamps, codes, names, max(last, default=_BEFORE_ALL))
        return stamps

    def _moved(
        self,
        given: array[int],
        codes: array[int],
        names: Sequence[str],
        last: array[int],
        first: int,
        moved: set[str],
    ) -> array[int]:
        """The stamps, from row ``first`` on each one that is free; ``moved`` gets the series."""
        stamps = array("q", given)
        for row in range(first, len(codes)):
            code, stamp = codes[row], stamps[row]
            name = names[code]
            taken = self._taken.get(name)
            if stamp <= last[code]:
                if taken is None or stamp < taken.lowest or len(taken.stamps) > taken.most:
                    found = self._remembered(name, stamp)
                    found += (s for s in _of_series(stamps, codes, code, row) if s >= stamp)
                    taken = self._taken[name] = _Taken(stamp, sorted(found))
                elif name not in moved:
                    for own in _of_series(stamps, codes, code, row):
                        insort(taken.stamps, own)
                moved.add(name)
                stamps[row] = stamp = taken.take(stamp)
            elif taken is not None and name in moved:
                taken.stamps.append(stamp)  # behind all of its series
            last[code] = max(last[code], stamp)
        return stamps

    def _remembered(self, name: str, lowest: int) -> list[int]:
        """The stamps of a series in earlier batches, from ``lowest`` on."""
        found: list[int] = []
        for highest, stamps, codes, names in self._batches:
            if highest >= lowest and name in names:
                own = _of_series(stamps, codes, names.index(name), len(codes))
                found += (stamp for stamp in own if stamp >= lowest)
        return found

    def _remember(
        self, stamps: array[int], codes: array[int], names: Sequence[str], highest: int
    ) -> None:
        self._batches.append((highest, stamps, codes, tuple(names)))
        self._rows += len(codes)
        while self._rows > _REMEMBERED_ROWS and len(self._batches) > 1:
            self._rows -= len(self._batches.popleft()[2])


def _of_series(stamps: array[int], codes: array[int], wanted: int, stop: int) -> Iterator[int]:
    """The stamps of a series in the rows before ``stop``."""
    pairs = zip(islice(stamps, stop), codes, strict=False)
    return (stamp for stamp, code in pairs if code == wanted)
