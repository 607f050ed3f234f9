"""The checks of ``penstock verify``: columns, order, duplicates, gaps and rates of a recording."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.record import SealFindings
from penstock.record.arrow import pyarrow_module
from penstock.record.schema import LEADING_COLUMNS, TRAILING_COLUMNS
from penstock.record.stored_parts import StoredPart

__all__ = ["NEEDED", "DeviceFindings", "Findings", "check"]

NEEDED = ("device", "t_mono_ns", "latency_s", "late_s", "error", "event", "message")
"""The columns whose values are looked at."""

_COUNTED = {
    "missed_slots": re.compile(r"^(\d+) missed"),
    "failed_polls": re.compile(r"^(\d+) more polls? failed"),
}
"""The events that stand for slots without a row, and how many they are."""
_TOLERANCE = 1.5
"""A poll may begin late within its period, and the next one on time."""
_SAME_RATE = 0.05
"""How far a rate may be from the one that the metadata tell."""
_STEADY = 0.01
_FEWEST_DISTANCES = 10
_LEAST_LATE_S = 1e-3


@dataclass(slots=True)
class DeviceFindings:
    """What is known of one device.

    Attributes:
        samples, failed: its polls, and those that were not answered.
        missed_slots: those that the recorder has reported.
        gaps: slots that nothing in the file explains.
        longest_gap_s: the longest of them.
        out_of_order: samples that were asked for before the one above them.
        duplicates: samples that were asked for at the same moment as another, wherever that is.
        late: polls that began more than a millisecond after their slot. That is no problem.
        expected_hz: the rate that the metadata tell, or, without one, that of most samples.
        rate_hz: the rate of the samples, where it is another.
    """

    samples: int = 0
    failed: int = 0
    missed_slots: int = 0
    gaps: int = 0
    longest_gap_s: float = 0.0
    out_of_order: int = 0
    duplicates: int = 0
    late: int = 0
    expected_hz: float | None = None
    rate_hz: float | None = None

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return (
            self.gaps + self.out_of_order + self.duplicates + (1 if self.rate_hz is not None else 0)
        )


@dataclass(slots=True)
class Findings:
    """What is known of a recording.

    ``damaged`` counts the places that cannot be read; ``seals`` has what those of its files say;
    ``formats`` where several formats of the same run differ. ``pauses`` are the times between runs,
    which are no problem.
    """

    parts: int = 0
    runs: int = 0
    events: int = 0
    devices: dict[str, DeviceFindings] = field(default_factory=dict)
    schema: list[str] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)
    damaged: int = 0
    seals: list[SealFindings] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return (
            len(self.schema)
            + len(self.formats)
            + self.damaged
            + sum(len(seal.problems) for seal in self.seals)
            + sum(device.problems for device in self.devices.values())
        )


@dataclass(slots=True)
class _Track:
    """The samples of a device in one run, in the order of the file.

    Attributes:
        requested: when each was asked for, chunks of int64.
        due: when each was due.
        rows: the row of each in the run.
        missed: the rows of events that stand for slots without a row, with their numbers.
    """

    rate_hz: float | None = None
    requested: list[Any] = field(default_factory=list)
    due: list[Any] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    missed: list[tuple[int, int]] = field(default_factory=list)


def check(parts: Iterable[StoredPart]) -> Findings:
    """Check the parts of a recording, or the pieces of them, in order.

    A gap is a distance between two polls of a device, by when they were due, that is longer than
    its period and for which the rows have no ``missed_slots`` or ``failed_polls`` event. Rates are
    those of the metadata; without them that of the rows, where they are steady.
    """
    findings = Findings()
    tracks: dict[str, _Track] = {}
    run: object = None
    rows = 0
    order: list[str] = []  # that of the configuration
    for part in parts:
        # The pieces of a part, and the tables of a database, have its path.
        findings.parts += part.is_first
        this = part.metadata.get("run_id", part.path)
        if this != run:
            # Another run has another start, and after a boot another monotonic clock.
            _end_run(tracks, findings)
            run = this
            findings.runs += 1
            tracks, rows = {}, 0
        _check_columns(part, findings)
        if not findings.schema:
            _take_rows(part, findings, tracks, rows)
        rows += len(part.table)
        order += [name for name in part.metadata.get("devices", {}) if name not in order]
    _end_run(tracks, findings)
    known = [name for name in order if name in findings.devices]
    findings.devices = {name: findings.devices[name] for name in known} | findings.devices
    return findings


def _check_columns(part: StoredPart, findings: Findings) -> None:
    pa = pyarrow_module()
    names = list(part.names)
    missing = [name for name in (*LEADING_COLUMNS, *TRAILING_COLUMNS) if name not in names]
    if missing:
        _tell(findings.schema, f"{part.path} has no column {', '.join(missing)}")
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            _tell(findings.schema, f"{part.path} has {names.count(name)} columns {name}")
    right = {
        "device": pa.types.is_string,
        "t_mono_ns": pa.types.is_integer,
        "latency_s": pa.types.is_floating,
        "late_s": pa.types.is_floating,
        "event": pa.types.is_string,
        "message": pa.types.is_string,
        "error_code": pa.types.is_string,
    }
    for column in part.table.schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if names.count(column.name) == 1 and not (
            pa.types.is_null(kind) or right.get(column.name, bool)(kind)
        ):
            _tell(findings.schema, f"{part.path}: {column.name} is of another type, {kind}")


def _tell(told: list[str], text: str) -> None:
    """Once for all pieces of a part."""
    if text not in told:
        told.append(text)


def _take_rows(
    part: StoredPart, findings: Findings, tracks: dict[str, _Track], before: int
) -> None:
    """Add the rows of a part, of which ``before`` rows of its run were taken."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    about = part.metadata.get("devices", {})
    table = part.table
    rows = len(table)

    def column(name: str, kind: Any) -> Any:
        if name not in table.column_names:
            return pa.nulls(rows, kind)
        found = table[name].combine_chunks()
        if isinstance(found, pa.ChunkedArray):
            found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, found.type)
        if pa.types.is_dictionary(found.type) and not pa.types.is_dictionary(kind):
            found = found.cast(found.type.value_type)
        return found.cast(kind) if pa.types.is_null(found.type) else found

    device = column("device", pa.string())
    event = column("event", pa.string())
    is_event = compute.is_valid(event)
    findings.events += int(compute.sum(is_event).as_py() or 0)
    _take_missed(findings, tracks, before, compute, device, event, column("message", pa.string()))
    numbers = pa.array(range(0), pa.int64()) if not rows else _range(pa, compute, before, rows)
    requested = compute.subtract(
        column("t_mono_ns", pa.int64()).cast(pa.int64()),
        _nanoseconds(pa, compute, column("latency_s", pa.float64())),
    )
    late = column("late_s", pa.float64())
    due = compute.subtract(requested, _nanoseconds(pa, compute, late))
    failed = compute.is_valid(column("error", pa.string()))
    is_late = compute.fill_null(compute.greater(late, _LEAST_LATE_S), False)
    samples = compute.invert(is_event)
    for name in device.unique().to_pylist():
        mine = compute.is_null(device) if name is None else compute.equal(device, name)
        mine = compute.and_(compute.fill_null(mine, False), samples)
        count = int(compute.sum(mine).as_py() or 0)
        if not count:
            continue
        counts = findings.devices.setdefault(name, DeviceFindings())
        counts.samples += count
        counts.failed += int(compute.sum(compute.and_(mine, failed)).as_py() or 0)
        counts.late += int(compute.sum(compute.and_(mine, is_late)).as_py() or 0)
        track = tracks.setdefault(name, _Track())
        track.rate_hz = _rate(about, name)
        track.requested.append(requested.filter(mine))
        track.due.append(due.filter(mine))
        track.rows.append(numbers.filter(mine))


def _take_missed(
    findings: Findings,
    tracks: dict[str, _Track],
    before: int,
    compute: Any,
    device: Any,
    event: Any,
    message: Any,
) -> None:
    for kind, pattern in _COUNTED.items():
        places = compute.indices_nonzero(compute.fill_null(compute.equal(event, kind), False))
        for place in places.to_pylist():
            name = device[place].as_py()
            counted = pattern.match(message[place].as_py() or "")
            if not counted or not name:
                continue
            number = int(counted[1])
            counts = findings.devices.setdefault(name, DeviceFindings())
            if kind == "missed_slots":
                counts.missed_slots += number
            else:
                counts.samples += number
                counts.failed += number
            tracks.setdefault(name, _Track()).missed.append((before + place, number))


def _range(pa: Any, compute: Any, first: int, count: int) -> Any:
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return compute.add(compute.cumulative_sum(ones), first - 1)


def _end_run(tracks: dict[str, _Track], findings: Findings) -> None:
    for name in list(tracks):
        if (track := tracks.pop(name)).requested:
            _check_track(track, findings.devices[name])


def _check_track(track: _Track, counts: DeviceFindings) -> None:
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    requested, due, rows = (
        pa.concat_arrays(each) for each in (track.requested, track.due, track.rows)
    )
    track.requested = track.due = []
    if _count(compute, compute.less_equal(_distances(compute, requested), 0)) and (
        doubled := len(requested) - compute.count_distinct(requested).as_py()
    ):
        counts.duplicates += doubled
        first = _first_places(requested)
        requested, due, rows = (each.take(first) for each in (requested, due, rows))
    counts.out_of_order += _count(compute, compute.less(_distances(compute, requested), 0))
    distances = _distances(compute, due)
    if not len(distances):
        return
    rate = track.rate_hz
    median = compute.quantile(distances, 0.5, interpolation="lower")[0].as_py()
    if rate is None:
        rate = _steady_rate(compute, distances, median)
    elif len(distances) >= _FEWEST_DISTANCES and median > 0 and not track.missed:
        found = 1e9 / median
        if abs(found / rate - 1) > _SAME_RATE:
            counts.rate_hz = found
    if rate is None:
        return
    counts.expected_hz = rate
    far = compute.indices_nonzero(compute.greater(distances, round(_TOLERANCE * 1e9 / rate)))
    track.missed.sort()
    places = [row for row, _ in track.missed]
    for place in far.to_pylist():
        begin = bisect_right(places, rows[place].as_py())
        end = bisect_right(places, rows[place + 1].as_py())
        explained = sum(slots for _, slots in track.missed[begin:end])
        distance = distances[place].as_py() - round(explained * 1e9 / rate)
        if distance > _TOLERANCE * 1e9 / rate:
            counts.gaps += 1
            counts.longest_gap_s = max(counts.longest_gap_s, distance / 1e9)


def _first_places(values: Any) -> Any:
    """Where each value stands for the first time."""
    seen: set[int] = set()
    places = []
    for place, value in enumerate(values.to_pylist()):
        if value not in seen:
            seen.add(value)
            places.append(place)
    return pyarrow_module().array(places, pyarrow_module().int64())


def _distances(compute: Any, values: Any) -> Any:
    return compute.subtract(values.slice(1), values.slice(0, max(0, len(values) - 1)))


def _count(compute: Any, found: Any) -> int:
    return int(compute.sum(found).as_py() or 0)


def _steady_rate(compute: Any, distances: Any, median: int) -> float | None:
    """The rate of most samples, if they keep one; None otherwise."""
    if len(distances) < _FEWEST_DISTANCES or median <= 0:
        return None
    off = compute.abs(compute.subtract(distances, median))
    near = _count(compute, compute.less_equal(off, round(_STEADY * median)))
    return 1e9 / median if near >= 0.8 * len(distances) else None


def _rate(about: dict[str, Any], device: str | None) -> float | None:
    rate = about.get(device, {}).get("rate_hz") if device is not None else None
    if not isinstance(rate, int | float):
        return None
    return float(rate) if math.isfinite(rate) and rate > 0 else None


def _nanoseconds(pa: Any, compute: Any, seconds: Any) -> Any:
    """In a damaged file a latency may be anything: what is no time counts as none."""
    sane = compute.fill_null(compute.less(compute.abs(seconds), 1e9), False)
    finite = compute.if_else(sane, seconds, 0.0)
    return compute.round(compute.multiply(finite, 1e9)).cast(pa.int64())
