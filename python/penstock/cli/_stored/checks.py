"""The checks of ``penstock verify``: columns, order, duplicates, gaps and rates of a recording."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.cli._stored.polls import DeviceFindings, Polls
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
_LEAST_LATE_S = 1e-3


@dataclass(slots=True)
class Findings:
    """What is known of a recording.

    ``damaged`` counts the places that cannot be read; ``seals`` has what those of its files say;
    ``formats`` where several formats of the same run differ, and ``seams`` where a kill has taken
    different ends of a run from them. ``pauses`` are the times between runs, and ``apart`` tells of
    files that are one part of a recording whose others were not checked. None of these three is a
    problem.
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
    seams: list[str] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)

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


def check(read: Callable[[], Iterable[StoredPart]]) -> Findings:
    """Check the parts of a recording, or the pieces of them, in order.

    A gap is a distance between two polls of a device, by when they were due, that is longer than
    its period and for which the rows have no ``missed_slots`` or ``failed_polls`` event. Rates are
    those of the metadata; without them that of the rows, where they are steady.

    Args:
        read: begins to read the recording. It is called again where rows may be there twice.
    """
    findings, doubtful = _check(read(), {})
    return _check(read(), doubtful)[0] if doubtful else findings


_Doubtful: TypeAlias = dict[tuple[int, str | None], Any]
"""By run and device, the moments that may be there twice."""


def _check(parts: Iterable[StoredPart], known: _Doubtful) -> tuple[Findings, _Doubtful]:
    findings = Findings()
    tracks: dict[str | None, Polls] = {}
    doubtful: _Doubtful = {}
    run: object = None
    rows = 0
    order: list[str] = []  # that of the configuration

    def end_run() -> None:
        for name, polls in tracks.items():
            if name in findings.devices:
                polls.end(findings.devices[name])
            if polls.found:
                moments = pyarrow_module().array(sorted(polls.found), pyarrow_module().int64())
                doubtful[findings.runs, name] = moments

    for part in parts:
        # The pieces of a part, and the tables of a database, have its path.
        findings.parts += part.is_first
        this = part.metadata.get("run_id", part.path)
        if this != run:
            # Another run has another start, and after a boot another monotonic clock.
            end_run()
            run = this
            findings.runs += 1
            tracks, rows = {}, 0
        _check_columns(part, findings)
        if not findings.schema:
            _take_rows(part, findings, tracks, known, rows)
        rows += len(part.table)
        order += [name for name in part.metadata.get("devices", {}) if name not in order]
    end_run()
    named = [name for name in order if name in findings.devices]
    findings.devices = {name: findings.devices[name] for name in named} | findings.devices
    return findings, doubtful


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
            _tell(findings.schema, f"{part.path}: {column.name} has a different type, {kind}")


def _tell(told: list[str], text: str) -> None:
    """Once for all pieces of a part."""
    if text not in told:
        told.append(text)


def _take_rows(
    part: StoredPart,
    findings: Findings,
    tracks: dict[str | None, Polls],
    known: _Doubtful,
    before: int,
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

    def polls_of(name: str | None) -> Polls:
        if name not in tracks:
            tracks[name] = Polls(known.get((findings.runs, name)))
        return tracks[name]

    _take_missed(findings, polls_of, before, compute, device, event, column("message", pa.string()))
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
        polls = polls_of(name)
        polls.rate_hz = _rate(about, name)
        polls.add(requested.filter(mine), due.filter(mine), numbers.filter(mine), counts)


def _take_missed(
    findings: Findings,
    polls_of: Callable[[str | None], Polls],
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
            polls_of(name).missed.append((before + place, number))


def _range(pa: Any, compute: Any, first: int, count: int) -> Any:
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return compute.add(compute.cumulative_sum(ones), first - 1)


def _rate(about: dict[str, Any], device: str | None) -> float | None:
    rate = about.get(device, {}).get("rate_hz") if device is not None else None
    if not isinstance(rate, int | float):
        return None
    return float(rate) if math.isfinite(rate) and rate > 0 else None


def _nanoseconds(pa: Any, compute: Any, seconds: Any) -> Any:
    """In a damaged file a latency may be anything: what is not a time counts as none."""
    sane = compute.fill_null(compute.less(compute.abs(seconds), 1e9), False)
    finite = compute.if_else(sane, seconds, 0.0)
    return compute.round(compute.multiply(finite, 1e9)).cast(pa.int64())
