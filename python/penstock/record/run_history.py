"""The runs of a recording: the pauses between them, and the rows of those that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.record.arrow import pyarrow_module
from penstock.record.stored_parts import StoredPart

__all__ = ["Pause", "RecordedRun", "RunTally", "merged_by_time", "pauses_between", "runs_of"]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The rows between a start of a recorder and its end.

    Attributes:
        run_id: the id that the recorder gave the run; the path of its first file if it has none.
        path: the first file of the run.
        begin: the time of the first row in nanoseconds since 1970 (UTC), events included.
        end: the time of the last row, likewise.
        rows: the number of rows, events included.
    """

    run_id: str
    path: Path
    begin: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which no recorder ran, in nanoseconds since 1970 (UTC)."""

    begin: int
    end: int

    def __str__(self) -> str:
        begin, end = (
            datetime.fromtimestamp(t // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for t in (self.begin, self.end)
        )
        return f"no recorder ran for {_length(self.end - self.begin)}, from {begin} to {end}"


class RunTally:
    """Finds the runs while the parts of a recording are read for something else."""

    def __init__(self) -> None:
        self._found: dict[str, RecordedRun] = {}

    def add(self, part: StoredPart) -> None:
        """Add a part or a piece of one; without ``t_utc`` it does not count."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        if not len(part.table) or "t_utc" not in part.table.column_names:
            return
        name = str(part.metadata.get("run_id", part.path))
        span = compute.min_max(part.table["t_utc"].cast(pa.timestamp("ns", "UTC")))
        begin, end = (span[which].value for which in ("min", "max"))
        if begin is None:
            return
        known = self._found.get(name, RecordedRun(name, part.path, begin, end, 0))
        self._found[name] = RecordedRun(
            name,
            known.path,
            min(known.begin, begin),
            max(known.end, end),
            known.rows + len(part.table),
        )

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs so far, in the order of their first rows."""
        return sorted(self._found.values(), key=lambda run: run.begin)

    @property
    def pauses(self) -> list[Pause]:
        """The times between them."""
        return pauses_between(self.runs)


def runs_of(parts: Iterable[StoredPart]) -> list[RecordedRun]:
    """The runs of parts with ``t_utc``, in the order of their first rows."""
    tally = RunTally()
    for part in parts:
        tally.add(part)
    return tally.runs


def pauses_between(runs: Iterable[RecordedRun]) -> list[Pause]:
    """The times between runs, given in the order of their first rows; runs may overlap."""
    found = []
    end: int | None = None
    for run in runs:
        if end is not None and run.begin > end:
            found.append(Pause(end, run.begin))
        end = run.end if end is None else max(end, run.end)
    return found


def _length(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    if seconds < _UNITS[-1][0]:
        return f"{seconds:.3g} s"
    words = []
    rest = round(seconds)
    for length, unit in _UNITS:
        if rest >= length:
            words.append(f"{rest // length} {unit}")
            rest %= length
    if rest and len(words) < 2:
        words.append(f"{rest} s")
    return " ".join(words[:2])


# The rows of runs that overlap, such as those of two recorders, in the order of time.
#
# Memory holds one table of each run that is being read, so a history may be larger than that.

_EARLIEST = -(2**63)


class _Run:
    """The table of a run whose rows are next, and their keys, which never fall."""

    def __init__(self, tables: Iterable[Any]) -> None:
        self._tables = iter(tables)
        self._last = _EARLIEST
        self.table: Any = None
        self._keys: Any = None
        self._advance()

    @property
    def last_key(self) -> int:
        """That of the table's last row. The rows after it have no lower one."""
        return self._last

    def take_until(self, limit: int) -> tuple[Any, Any]:
        """The next rows whose keys are at most ``limit``, and their keys."""
        compute = pyarrow_module("pyarrow.compute")
        count = compute.sum(compute.less_equal(self._keys, limit)).as_py()
        taken = self.table.slice(0, count), self._keys.slice(0, count)
        self.table, self._keys = self.table.slice(count), self._keys.slice(count)
        if not len(self.table):
            self._advance()
        return taken

    def _advance(self) -> None:
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        self.table = next((table for table in self._tables if len(table)), None)
        if self.table is None:
            return
        stamps = self.table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        # A row counts as not earlier than those before it, even where the clock was set back.
        known = stamps.combine_chunks().fill_null(_EARLIEST)
        self._keys = compute.cumulative_max(known, start=self._last)
        self._last = self._keys[-1].as_py()


def merged_by_time(runs: Sequence[Iterable[Any]]) -> Iterator[Any]:
    """Tables with the rows of all ``runs`` in the order of ``t_utc``.

    Rows of one run stay in their order; rows of one time in that of the runs.

    Args:
        runs: the tables of each, all of one schema.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    waiting = [_Run(tables) for tables in runs]
    while waiting := [run for run in waiting if run.table is not None]:
        limit = min(run.last_key for run in waiting)
        taken = [run.take_until(limit) for run in waiting]
        rows = pa.concat_tables([table for table, _ in taken])
        keys = pa.chunked_array([keys for _, keys in taken], pa.int64())
        yield rows.take(compute.sort_indices(keys))
