"""What cannot be read of a recording: named, counted, and never skipped in silence.

A file that a disk, a cable or an editor has damaged is read as far as it goes, and each place that
is left out is a :class:`Damage`. Whether that is an error is for the reader to say: programs stop
at the first one unless they ask for the good rows (``penstock.record.open(path, strict=False)``),
the commands go on and name them all.

Whatever the bytes of a file make a library raise is a reading of the file, not a defect of the
program. :data:`UNREADABLE` lists what the libraries raise, and :func:`reason_of` puts it into
words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.record.errors import RecordError

__all__ = [
    "UNREADABLE",
    "Damage",
    "DamageList",
    "DamagedError",
    "MissingFile",
    "ShorterFormat",
    "reason_of",
    "unreadable_is",
]

UNREADABLE: tuple[type[Exception], ...] = (
    # pyarrow's errors are ValueError, TypeError, KeyError, IndexError, NotImplementedError,
    # MemoryError (a length that was read as terabytes) and OSError without a number.
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,
    MemoryError,
    RecursionError,
    EOFError,
    OSError,
    sqlite3.Error,
)

_MOST_LISTED = 1000


class DamagedError(RecordError):
    """A part of a recording cannot be read. ``damage`` is the first such place."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"{damage}; to read the rest, pass strict=False, and see what is left out in damages"
        )
        self.damage = damage


@dataclass(frozen=True, slots=True)
class Damage:
    """A place of a recording that cannot be read.

    Attributes:
        path: the file.
        place: the place in the file: a line, a row, a page or a batch; empty for the whole file.
        reason: what is wrong there.
        rows: the number of rows that are lost by it; None if it cannot be known.
    """

    path: Path
    place: str
    reason: str
    rows: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}, {self.place}" if self.place else f"{self.path}"
        rows = f" ({self.rows} rows)" if self.rows is not None and self.rows > 1 else ""
        return f"{where}: {self.reason}{rows}"


@dataclass(frozen=True, slots=True)
class MissingFile(Damage):
    """A file of a recording that another one names, and that is not there."""


@dataclass(frozen=True, slots=True)
class ShorterFormat(Damage):
    """A format of a run that has fewer rows than the one that is read. Nothing is left out."""


class DamageList:
    """The damages that one reading has met, the first thousand of them one by one.

    Attributes:
        listed: the first ones.
        count: how many there are in all.
        rows: how many rows are known to be missing.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.listed: list[Damage] = []
        self.count: int = 0
        self.rows: int = 0

    def note(self, path: Path, place: str, reason: str, rows: int | None = None) -> None:
        """Add a damage; DamagedError when the reading is strict."""
        self._add(Damage(path, place, reason, rows))

    def note_missing(self, path: Path, reason: str) -> None:
        """Add a file that is not there; DamagedError when the reading is strict."""
        self._add(MissingFile(path, "", reason))

    def _add(self, damage: Damage) -> None:
        if self.strict:
            raise DamagedError(damage)
        self.count += 1
        self.rows += damage.rows or 0
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(damage)

    def note_end(self, path: Path, place: str, reason: str) -> None:
        """Add a torn end, which a kill leaves: no error, even where the reading is strict."""
        self.count += 1
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(Damage(path, place, reason))

    def note_shorter(self, path: Path, reason: str) -> None:
        """Add a format of a run with fewer rows than the one that is read; never an error."""
        self.count += 1
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(ShorterFormat(path, "", reason))

    def clear(self) -> None:
        """Forget them, before the recording is read again."""
        self.listed.clear()
        self.count = self.rows = 0


def reason_of(error: Exception) -> str:
    """What is wrong, in one line of moderate length."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, MemoryError):
        text = "a length in it is larger than the memory"
    elif isinstance(error, RecursionError):
        text = "it is nested too deeply"
    elif isinstance(error, UnicodeError):
        text = "it is not UTF-8"
    elif isinstance(error, OSError) and error.errno is not None and error.strerror:
        text = error.strerror
    elif isinstance(error, LookupError) and type(error) in (KeyError, IndexError):
        text = f"{text} is not in it"
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    if not shown:
        return type(error).__name__
    return shown if len(shown) <= 200 else shown[:197] + "..."


@contextmanager
def unreadable_is(kind: type[RecordError], path: Path, advice: str) -> Iterator[None]:
    """Turn what the bytes of ``path`` make a library raise into a sentence about the file.

    What the operating system refuses (an OSError with a number) is passed on unchanged, and so is
    every error of this package.
    """
    try:
        yield
    except RecordError:
        raise
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise kind(f"{path} cannot be read: {reason_of(error)}; {advice}") from error
