"""A time stamp of its own for each row of a series.

For servers where two rows of one series and one stamp are one row.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

from penstock._record import rising_stamps

__all__ = ["RowStamps"]

_REMEMBERED_ROWS = 1 << 20
_BEFORE_ALL = -(2**63)


class RowStamps:
    """Moves a stamp that its series has already to the next nanosecond that is free.

    Nearly every stamp is behind all those of its series, and is left as it is. One that is not (two
    rows of one moment, or a clock that was set back) is compared with the last million rows.
    Rejected: the nanosecond behind the last one. After a clock was set back, all rows would have
    nearly one stamp, until it has caught up.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._batches: deque[tuple[array[int], array[int], Sequence[str]]] = deque()
        self._rows = 0
        # Of series whose clock was set back, all stamps that are remembered.
        self._taken: dict[str, set[int]] = {}

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
        self._remember(stamps, codes, names)
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
            if stamp <= last[code]:
                if name not in moved:
                    moved.add(name)
                    if name not in self._taken:
                        self._taken[name] = self._remembered(name)
                    self._taken[name].update(_of_series(stamps, codes, names, name, row))
                taken = self._taken[name]
                while stamp in taken:
                    stamp += 1
                stamps[row] = stamp
            if name in moved:
                self._taken[name].add(stamp)
            last[code] = max(last[code], stamp)
        return stamps

    def _remembered(self, name: str) -> set[int]:
        found: set[int] = set()
        for stamps, codes, names in self._batches:
            found.update(_of_series(stamps, codes, names, name, len(codes)))
        return found

    def _remember(self, stamps: array[int], codes: array[int], names: Sequence[str]) -> None:
        self._batches.append((stamps, codes, tuple(names)))
        self._rows += len(codes)
        while self._rows > _REMEMBERED_ROWS and len(self._batches) > 1:
            self._rows -= len(self._batches.popleft()[1])


def _of_series(
    stamps: array[int], codes: array[int], names: Sequence[str], name: str, stop: int
) -> set[int]:
    """The stamps of a series in the rows before ``stop``."""
    if name not in names:
        return set()
    wanted = names.index(name)
    return {stamps[row] for row in range(stop) if codes[row] == wanted}
