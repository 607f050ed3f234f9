"""The runs of a recording, and the pauses between them, in which no recorder ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.record.arrow import pyarrow_module
from penstock.record.stored_parts import StoredPart

__all__ = ["Pause", "RecordedRun", "RunTally", "pauses_between", "runs_of"]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The rows between a start of a recorder and its end.

    Attributes:
        run_id: what the recorder has called the run; the path of its first file, where it has no
            name.
        path: its first file.
        begin: the time of its first row in nanoseconds since 1970 (UTC), events included.
        end: that of its last row.
        rows: how many it has, events included.
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
