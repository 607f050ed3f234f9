"""Rows on their way to a server: stamps, numbers, compressed text, and the file of refused ones."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import zlib
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from penstock._durable_files import sync_folder, write_fully
from penstock._record import rising_stamps

# A time stamp of its own for each row of a series.
#
# For servers where two rows of one series and one stamp are one row.

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


# An identity for each row, where the other side may get a row twice: run, device, number.


class RowNumbers:
    """Counts the rows of each device, from 0, within one run.

    The device, the run and the number together are a row's own for all time. A reader that finds
    a number twice drops one; a gap is a row that it has not got.

    Attributes:
        run: a random name.
    """

    def __init__(self) -> None:
        self.run = secrets.token_hex(8)
        self._next: dict[str, int] = {}

    def take(self, codes: array[int], names: Sequence[str]) -> array[int]:
        """The numbers of rows whose devices are ``names[code]``."""
        present = [self._next.get(name, 0) for name in names]
        numbers = array("q", bytes(8 * len(codes)))
        for row, code in enumerate(codes):
            numbers[row] = present[code]
            present[code] += 1
        self._next.update(zip(names, present, strict=True))
        return numbers


# Rows as text, compressed with gzip (RFC 1952).

_GZIP_LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS


def gzip_text(text: bytes) -> bytes:
    """Compress ``text``, without the GIL where it is long."""
    return _gzip_compressor()(text)


@cache
def _gzip_compressor() -> Callable[[bytes], bytes]:
    """ISA-L's by the package isal, or zlib's.

    For rows of the line protocol ISA-L takes a quarter of zlib's time and makes a tenth less of
    them. Rejected: an encoder of the project's own, half as fast as ISA-L.
    """
    try:
        igzip = importlib.import_module("isal.igzip")
    except ModuleNotFoundError:
        return lambda text: zlib.compress(text, _GZIP_LEVEL, _GZIP)
    return lambda text: bytes(igzip.compress(text, _GZIP_LEVEL))


# The file of rows that the other side will never take, with its reasons.

_REMEMBERED_LINES = 1 << 16


class RefusedRows:
    """Rows as they were sent, a line each, below comments that tell why they were refused.

    InfluxDB's line protocol has such comments, so a mended file of lines can be sent as it is. What
    is sent again, after a lost connection, is refused again: a line is in the file once, as far as
    the hashes of the last lines tell.

    Attributes:
        path: made with the first line.
        reason: why the first of this run was refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reason: str | None = None
        self._known: dict[bytes, None] = {}

    def add(self, lines: Sequence[bytes], reason: str) -> None:
        """Append lines durably, all of them or none, but those that are there. OSError."""
        reason = " ".join(reason.split())
        self.reason = self.reason or reason
        new = {blake2b(line, digest_size=16).digest(): line for line in lines}
        new = {name: line for name, line in new.items() if name not in self._known}
        if not new:
            return
        self._append(list(new.values()), reason)
        self._known.update(dict.fromkeys(new))
        for name in list(islice(self._known, max(0, len(self._known) - _REMEMBERED_LINES))):
            del self._known[name]

    def _append(self, lines: Sequence[bytes], reason: str) -> None:
        head = f"# {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {len(lines)} refused: {reason}\n"
        data = head.encode() + b"".join(line + b"\n" for line in lines)
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            end = os.fstat(descriptor).st_size
            try:
                write_fully(descriptor, data)
                os.fsync(descriptor)
            except OSError:
                # They come again with the next attempt, and half a line would spoil the first.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
        sync_folder(os.fspath(self.path))
