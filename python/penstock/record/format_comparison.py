"""Whether the formats of one run have the same values, row by row.

All sinks of a run get the same rows in the same order. A format that has lost rows is shorter,
which :func:`~penstock.record.stored_parts.stored_parts` notes; here the rows that two formats share
are compared, from the first one on, until they are of different polls.

Formats differ in what they can say, which is not a difference: SQLite has no NaN, text files have
no empty text, and a number may be an integer in one and a float in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.record.arrow import pyarrow_module
from penstock.record.damage import DamageList
from penstock.record.stored_parts import recordings_at, stored_pieces

__all__ = ["compare_formats"]

_KEYS = ("device", "event", "t_mono_ns")
"""What tells which row it is."""


@dataclass(slots=True)
class _Difference:
    """The values of one column that differ: where first, what stands there, and how many."""

    row: int
    values: tuple[object, object]
    count: int


@dataclass(slots=True)
class _Comparison:
    columns: dict[str, _Difference] = field(default_factory=dict)
    parted: int | None = None  # the first row that is another poll in the other format


def compare_formats(folder: Path, table: str = "samples") -> list[str]:
    """Sentences on where the formats of the recordings in a folder differ; empty if they agree.

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
    found: list[str] = []
    for paths in by_name.values():
        for other in paths[1:]:
            found += _sentences(paths[0], other, _compare(paths[0], other, table))
    return found


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


def _compare(first: Path, other: Path, table: str) -> _Comparison:
    found = _Comparison()
    damages = DamageList(strict=False)
    row = 1
    for here, there in _side_by_side(first, other, table, damages):
        count = _same_polls(here, there)
        _compare_rows(here.slice(0, count), there.slice(0, count), row, found)
        if count < len(here):
            found.parted = row + count
            break
        row += count
    return _Comparison() if damages.count else found


def _side_by_side(
    first: Path, other: Path, table: str, damages: DamageList
) -> Iterator[tuple[Any, Any]]:
    """Tables of the same rows of both, as far as both have any."""
    ours, theirs = (
        (part.table for part in stored_pieces(path, table, damages) if len(part.table))
        for path in (first, other)
    )
    here = there = None
    while True:
        if here is None or not len(here):
            here = next(ours, None)
        if there is None or not len(there):
            there = next(theirs, None)
        if here is None or there is None:
            return
        count = min(len(here), len(there))
        yield here.slice(0, count), there.slice(0, count)
        here, there = here.slice(count), there.slice(count)


def _same_polls(here: Any, there: Any) -> int:
    """How many rows from the first one on are of the same polls."""
    compute = pyarrow_module("pyarrow.compute")
    least = len(here)
    for name in _KEYS:
        if name in here.column_names and name in there.column_names:
            place = compute.index(_differing(here[name], there[name]), True).as_py()
            least = min(least, place if place >= 0 else least)
    return int(least)


def _compare_rows(here: Any, there: Any, row: int, found: _Comparison) -> None:
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    for name in dict.fromkeys((*here.column_names, *there.column_names)):
        ours, theirs = (
            each[name] if name in each.column_names else pa.nulls(len(here))
            for each in (here, there)
        )
        differing = _differing(ours, theirs)
        if not (count := int(compute.sum(differing).as_py() or 0)):
            continue
        if name in found.columns:
            found.columns[name].count += count
            continue
        place = compute.index(differing, True).as_py()
        values = (ours[place].as_py(), theirs[place].as_py())
        found.columns[name] = _Difference(row + place, values, count)


def _differing(ours: Any, theirs: Any) -> Any:
    """For each row whether the values differ."""
    compute = pyarrow_module("pyarrow.compute")
    ours, theirs = _alike(_plain(ours), _plain(theirs))
    one_missing = compute.xor(compute.is_null(ours), compute.is_null(theirs))
    return compute.or_(one_missing, compute.fill_null(compute.not_equal(ours, theirs), False))


def _plain(column: Any) -> Any:
    """Without dictionaries, time zones, NaN and empty texts."""
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
        return compute.if_else(compute.is_nan(column), pa.scalar(None, pa.float64()), column)
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
