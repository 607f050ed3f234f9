"""The checks of ``penstock verify``: columns, order, duplicates and gaps of a recording."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.record.arrow import pyarrow_module
from penstock.record.schema import LEADING_COLUMNS, TRAILING_COLUMNS
from penstock.record.stored_parts import StoredPart

__all__ = ["DeviceFindings", "Findings", "check"]

_MISSED = re.compile(r"^(\d+) missed")
_TOLERANCE = 1.5
"""A poll may begin late within its period, and the next one on time."""


@dataclass(slots=True)
class DeviceFindings:
    """What is known of one device. ``gaps`` counts slots that nothing in the file explains."""

    samples: int = 0
    failed: int = 0
    missed_slots: int = 0
    gaps: int = 0
    longest_gap_s: float = 0.0
    out_of_order: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class Findings:
    """What is known of a recording."""

    parts: int = 0
    runs: int = 0
    events: int = 0
    devices: dict[str, DeviceFindings] = field(default_factory=dict)
    schema: list[str] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return len(self.schema) + sum(
            device.gaps + device.out_of_order + device.duplicates
            for device in self.devices.values()
        )


@dataclass(slots=True)
class _Last:
    """Where the rows of a device have come to."""

    due_ns: int
    requested_ns: int
    explained_ns: int = 0


def check(parts: Iterable[StoredPart]) -> Findings:
    """Check the parts of a recording, in order.

    A gap is a distance between two polls of a device, by when they were due, that is longer than
    its period and for which the rows have no ``missed_slots`` event. Rates are those of the
    metadata; without them only order and duplicates are checked.
    """
    findings = Findings()
    lasts: dict[str, _Last] = {}
    run: object = None
    for part in parts:
        findings.parts += 1
        this = part.metadata.get("run_id", part.path)
        if this != run:
            # Another run has another start, and after a boot another monotonic clock.
            run = this
            findings.runs += 1
            lasts = {}
        _check_columns(part, findings)
        if not findings.schema:
            _check_rows(part, findings, lasts)
    return findings


def _check_columns(part: StoredPart, findings: Findings) -> None:
    pa = pyarrow_module()
    names = part.table.column_names
    missing = [name for name in (*LEADING_COLUMNS, *TRAILING_COLUMNS) if name not in names]
    if missing:
        findings.schema.append(f"{part.path} has no column {', '.join(missing)}")
    for name in set(names):
        if names.count(name) > 1:
            findings.schema.append(f"{part.path} has {names.count(name)} columns {name}")
    if "t_mono_ns" in names and not pa.types.is_integer(part.table.schema.field("t_mono_ns").type):
        findings.schema.append(f"{part.path}: t_mono_ns holds no whole numbers")


def _check_rows(part: StoredPart, findings: Findings, lasts: dict[str, _Last]) -> None:
    about = part.metadata.get("devices", {})
    table = part.table
    rows = len(table)
    nothing: list[Any] = [None] * rows

    def column(name: str) -> list[Any]:
        return table[name].to_pylist() if name in table.column_names else nothing

    for device, t_mono, latency, late, error, event, message in zip(
        column("device"),
        column("t_mono_ns"),
        column("latency_s"),
        column("late_s"),
        column("error"),
        column("event"),
        column("message"),
        strict=True,
    ):
        if event is not None:
            findings.events += 1
            missed = _MISSED.match(message or "") if event == "missed_slots" else None
            if missed and device:
                counts = findings.devices.setdefault(device, DeviceFindings())
                counts.missed_slots += int(missed[1])
                if (last := lasts.get(device)) is not None:
                    rate = about.get(device, {}).get("rate_hz")
                    last.explained_ns += round(int(missed[1]) * 1e9 / rate) if rate else 0
            continue
        counts = findings.devices.setdefault(device, DeviceFindings())
        counts.samples += 1
        counts.failed += error is not None
        requested = t_mono - round(latency * 1e9)
        due = requested - round((late or 0.0) * 1e9)
        last = lasts.get(device)
        if last is not None:
            if requested == last.requested_ns:
                counts.duplicates += 1
            elif requested < last.requested_ns:
                counts.out_of_order += 1
            rate = about.get(device, {}).get("rate_hz")
            if rate:
                distance = due - last.due_ns - last.explained_ns
                if distance > _TOLERANCE * 1e9 / rate:
                    counts.gaps += 1
                    counts.longest_gap_s = max(counts.longest_gap_s, distance / 1e9)
        lasts[device] = _Last(due, requested)
