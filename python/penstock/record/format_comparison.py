"""Whether the formats of one run have the same values, row by row.

All sinks of a run get the same rows in the same order. A format that has lost rows is shorter,
which :func:`~penstock.record.stored_parts.stored_parts` notes; here the rows that two formats share
are compared, from the first one on, until they are of different polls.

A kill takes another number of rows from the end of each format, as each has its own loss window.
Where the files themselves say that a run was cut off, a format may lack the last rows of that run,
as many as a kill takes: that is a *seam*, and is named. What follows is compared from the next run
on. Anything else that is missing is a difference, such as a file that the one before it names.

Of a text whose description is lost it is not known which run its rows are of. They are compared
with those of the run that comes next in the other format.

Formats differ in what they can say, which is not a difference: SQLite has no NaN, JSON neither NaN
nor infinities, text files have no empty text, and a number may be an integer in one and a float in
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from penstock.record._cut_off_runs import cut_off_runs
from penstock.record._parts.continuation import next_file
from penstock.record._seals.seal_check import rows_from_to
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import DamageList, MissingFile
from penstock.record.stored_parts import StoredPart, is_growing, recordings_at, stored_pieces

__all__ = ["FormatFindings", "compare_formats", "find_differences"]

_KEYS = ("device", "event", "t_mono_ns")
"""What tells which row it is."""
_LONGEST_SEAM_NS = 10_000_000_000
"""Ten loss windows: a disk that is slow may exceed one."""


@dataclass(slots=True)
class FormatFindings:
    """How the formats of the recordings in a folder differ.

    Attributes:
        problems: sentences on values that differ, and on rows that are missing in one.
        seams: sentences on the ends of runs that a kill has taken from one format and not from
            another. Nothing is wrong with those.
        explained: the recordings that are shorter than others at such ends alone.
    """

    problems: list[str] = field(default_factory=list)
    seams: list[str] = field(default_factory=list)
    explained: set[Path] = field(default_factory=set)


@dataclass(slots=True)
class _Difference:
    """The values of one column that differ: where first, what stands there, and how many."""

    row: int
    values: tuple[object, object]
    count: int


@dataclass(slots=True)
class _Tail:
    """The last rows of a run that one format has and the other has not, or all rows of a run."""

    run: Any
    of: Path
    lacking: Path
    before: int  # rows of ``of`` in front of them
    is_whole: bool
    rows: int = 0
    first_ns: int | None = None
    last_ns: int | None = None

    def add(self, table: Any) -> None:
        """Take in the next rows."""
        compute = pyarrow_module("pyarrow.compute")
        self.rows += len(table)
        if "t_mono_ns" in table.column_names:
            ends = compute.min_max(table["t_mono_ns"]).as_py()
            self.first_ns = ends["min"] if self.first_ns is None else self.first_ns
            self.last_ns = ends["max"] if ends["max"] is not None else self.last_ns

    @property
    def length_ns(self) -> int:
        """The time between the first and the last row."""
        if self.first_ns is None or self.last_ns is None:
            return 0
        return self.last_ns - self.first_ns


@dataclass(slots=True)
class _Comparison:
    columns: dict[str, _Difference] = field(default_factory=dict)
    parted: int | None = None  # the first row that is another poll in the other format
    tails: list[_Tail] = field(default_factory=list)

    def rows_more_in(self, path: Path) -> int:
        """How many more rows ``path`` has than the other; negative if it has fewer."""
        return sum(tail.rows if tail.of == path else -tail.rows for tail in self.tails)


def compare_formats(folder: Path, table: str = "samples") -> list[str]:
    """Sentences on where the formats of the recordings in a folder differ; empty if they agree.

    See :func:`find_differences`, of which these are the problems.
    """
    return find_differences(folder, table).problems


def find_differences(folder: Path, table: str = "samples") -> FormatFindings:
    """Compare the formats of the recordings in a folder, reading all of them. Blocking.

    A format of which something cannot be read is not compared, as that is a finding by itself.
    Neither are the rows of a folder that is divided by devices: they have another order.

    Args:
        folder: the folder of a run.
        table: that of SQLite.
    """
    by_name: dict[Path, list[Path]] = {}
    for path in recordings_at(folder):
        if not any(path.glob("*=*")):
            by_name.setdefault(path.with_suffix(""), []).append(path)
    found = FormatFindings()
    for paths in by_name.values():
        first, compared = _compare_all(paths, table)
        for other, comparison in compared.items():
            found.problems += _sentences(first, other, comparison)
            _judge(first, other, comparison.tails, found)
    return found


def _compare_all(paths: list[Path], table: str) -> tuple[Path, dict[Path, _Comparison]]:
    """Each format compared with one of them: with the first, unless another has more rows."""
    first = paths[0]
    compared = {other: _compare(first, other, table) for other in paths[1:]}
    fullest = max(compared, key=lambda other: compared[other].rows_more_in(other), default=first)
    if fullest != first and compared[fullest].rows_more_in(fullest) > 0:
        compared = {other: _compare(fullest, other, table) for other in paths if other != fullest}
        first = fullest
    return first, compared


def _sentences(first: Path, other: Path, found: _Comparison) -> Iterator[str]:
    for name, difference in found.columns.items():
        here, there = difference.values
        more = f", and {difference.count - 1} more of its values differ"
        yield (
            f"{name} of row {difference.row} is {there!r} in {other} and {here!r} in {first}"
            f"{more if difference.count > 1 else ''}"
        )
    if found.parted is not None:
        yield f"row {found.parted} of {other} is of another poll than that of {first}"


def _judge(first: Path, other: Path, tails: list[_Tail], found: FormatFindings) -> None:
    """Tell a seam from a loss that the files do not explain."""
    known = cache(cut_off_runs)
    growing = bool(tails) and (is_growing(first) or is_growing(other))
    lost = False
    for tail in tails:
        if growing and tail is tails[-1]:
            continue  # the formats of a run that is being recorded grow one after the other
        rows = f"{rows_from_to(tail.before, tail.before + tail.rows)} of {tail.of}"
        told = tail.run in known(tail.lacking)
        if tail.is_whole and not told:
            told = tail.run in known(tail.of) and next_file(tail.lacking) is None
        if not told:
            lost = True
            found.problems.append(
                f"{rows} are not in {tail.lacking}, which does not say that their run was cut off"
            )
        elif tail.length_ns > _LONGEST_SEAM_NS:
            lost = True
            seconds = tail.length_ns / 1e9
            found.problems.append(
                f"{rows} are not in {tail.lacking}: its run was cut off there, but they are of "
                f"{seconds:.0f} s, which is more than a kill takes"
            )
        else:
            found.seams.append(f"{rows} are not in {tail.lacking}, where their run was cut off")
    if not lost:
        found.explained |= {tail.lacking for tail in tails}


class _NextRows:
    """The rows of a recording that come next, and the run that they are of."""

    def __init__(self, path: Path, pieces: Iterable[StoredPart]) -> None:
        self.path = path
        self.before = 0
        self._pieces = iter(pieces)
        self.table: Any = None
        self.run: Any = None
        self._advance()

    def take(self, count: int) -> Any:
        """The next ``count`` rows, of those in ``table``."""
        taken, self.table = self.table.slice(0, count), self.table.slice(count)
        self.before += count
        if not len(self.table):
            self._advance()
        return taken

    def begin(self) -> int:
        """When the next row was received, in nanoseconds since 1970."""
        pa = pyarrow_module()
        if "t_utc" not in self.table.column_names:
            return 0
        stamp = self.table["t_utc"][0].cast(pa.timestamp("ns", "UTC")).value
        return int(stamp or 0)

    def _advance(self) -> None:
        self.table = None
        for part in self._pieces:
            if len(part.table):
                self.table, self.run = part.table, part.metadata.get("run_id")
                return


def _compare(first: Path, other: Path, table: str) -> _Comparison:
    found = _Comparison()
    damages = DamageList(strict=False)
    ours, theirs = (_NextRows(path, stored_pieces(path, table, damages)) for path in (first, other))
    finite = ".jsonl" in (first.suffix, other.suffix)
    run: Any = None  # of the rows that were compared last
    while ours.table is not None or theirs.table is not None:
        if ours.table is None or theirs.table is None or _are_of_two_runs(ours.run, theirs.run):
            _take_tail(ours, theirs, run, found)
            continue
        run = theirs.run if ours.run is None else ours.run
        row = theirs.before + 1
        count = min(len(ours.table), len(theirs.table))
        here, there = ours.take(count), theirs.take(count)
        same = _same_polls(here, there)
        _compare_rows(here.slice(0, same), there.slice(0, same), row, found, finite=finite)
        if same < count:
            found.parted = row + same
            break
    # Rows at the end that are missing are a difference; those before it would shift all others.
    unread = any(not isinstance(damage, MissingFile) for damage in damages.listed)
    return _Comparison() if unread else found


def _are_of_two_runs(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one != other


def _take_tail(ours: _NextRows, theirs: _NextRows, run: Any, found: _Comparison) -> None:
    """Take the rows of a run that only one of them has: of the run before, else the earlier."""
    longer, shorter = ours, theirs
    if ours.table is None:
        longer, shorter = theirs, ours
    elif theirs.table is None or ours.run == run:
        pass
    elif theirs.run == run or theirs.begin() < ours.begin():
        longer, shorter = theirs, ours
    of = longer.run
    tail = _Tail(of, longer.path, shorter.path, longer.before, is_whole=of != run)
    while longer.table is not None and longer.run == of:
        tail.add(longer.take(len(longer.table)))
    found.tails.append(tail)


def _same_polls(here: Any, there: Any) -> int:
    """How many rows from the first one on are of the same polls."""
    compute = pyarrow_module("pyarrow.compute")
    least = len(here)
    for name in _KEYS:
        if name in here.column_names and name in there.column_names:
            place = compute.index(_differing(here[name], there[name]), True).as_py()
            least = min(least, place if place >= 0 else least)
    return int(least)


def _compare_rows(here: Any, there: Any, row: int, found: _Comparison, *, finite: bool) -> None:
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    for name in dict.fromkeys((*here.column_names, *there.column_names)):
        ours, theirs = (
            each[name] if name in each.column_names else pa.nulls(len(here))
            for each in (here, there)
        )
        differing = _differing(ours, theirs, finite=finite)
        if not (count := int(compute.sum(differing).as_py() or 0)):
            continue
        if name in found.columns:
            found.columns[name].count += count
            continue
        place = compute.index(differing, True).as_py()
        values = (ours[place].as_py(), theirs[place].as_py())
        found.columns[name] = _Difference(row + place, values, count)


def _differing(ours: Any, theirs: Any, *, finite: bool = False) -> Any:
    """For each row whether the values differ; with ``finite``, infinities count as no value."""
    compute = pyarrow_module("pyarrow.compute")
    ours, theirs = _alike(_plain(ours, finite=finite), _plain(theirs, finite=finite))
    one_missing = compute.xor(compute.is_null(ours), compute.is_null(theirs))
    return compute.or_(one_missing, compute.fill_null(compute.not_equal(ours, theirs), False))


def _plain(column: Any, *, finite: bool) -> Any:
    """Without dictionaries, zones, NaN and empty texts, and without infinities if ``finite``."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        none = compute.invert(compute.is_finite(column)) if finite else compute.is_nan(column)
        return compute.if_else(none, pa.scalar(None, pa.float64()), column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        empty = compute.equal(column, "")
        return compute.if_else(empty, pa.scalar(None, kind), column)
    return column


def _alike(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Both of one type: numbers as floats if one is, anything else as text."""
    pa = pyarrow_module()
    if ours.type == theirs.type:
        return ours, theirs
    if pa.types.is_null(ours.type) or pa.types.is_null(theirs.type):
        kind = theirs.type if pa.types.is_null(ours.type) else ours.type
    elif all(pa.types.is_floating(t) or pa.types.is_integer(t) for t in (ours.type, theirs.type)):
        kind = pa.float64() if pa.types.is_floating(ours.type) else ours.type
        if pa.types.is_floating(theirs.type):
            kind = pa.float64()
    else:
        kind = pa.string()
    return ours.cast(kind, safe=False), theirs.cast(kind, safe=False)
