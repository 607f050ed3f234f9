"""The curves of a recording: for each device, quantity and unit the envelope of its values.

A change of unit begins another curve, so no curve has values of two units. A column that is a
number in one part and a text in another is one curve: texts that are numbers count, and others are
gaps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.record.arrow import METADATA_KEY, measured_numbers, pyarrow_module, unit_for, units_of
from penstock.record.envelopes.bins import (
    Bins,
    GrowingEnvelope,
    Numbers,
    Times,
    device_codes,
    fold,
    integers_of,
    numbers_of,
)
from penstock.record.shown_quantity import choose_quantity
from penstock.record.steady_times import SteadyTimes
from penstock.record.stored_parts import StoredPart

__all__ = ["Curves", "Line", "RecordedCurve", "line_of"]

TimeSource: TypeAlias = Literal["wall", "steady"]
"""``wall``: the stamps ``t_utc`` as they are. ``steady``: those of the monotonic clock, in a scale
that agrees with ``t_utc`` at the first row of each boot; a clock that is set moves nothing."""

_MISSED_POLLS = 5
"""Without a row for so many intervals the line ends: the recorder was not there."""


@dataclass(slots=True)
class RecordedCurve:
    """The values of one field of one device in one unit.

    Attributes:
        device: its name.
        field: the column.
        unit: an empty text where it is not known.
        envelope: its bins; the times are nanoseconds since 1970 (UTC).
        gap_ns: rows further apart than this are not joined by a line; None if that is not known.
    """

    device: str
    field: str
    unit: str
    envelope: GrowingEnvelope
    gap_ns: int | None = None


class Curves:
    """Makes the curves of the parts that :meth:`add` gets, in the order of recording.

    Args:
        limit: of the bins of each curve.
        fields: the columns; by default for each device the one that
            :func:`~penstock.record.shown_quantity.choose_quantity` chooses.
        devices: only these; by default all.
        times: which clock's.
        begin: the first nanosecond since 1970 (UTC) that is taken, of ``t_utc``.
        end: the first nanosecond that is not taken any more.
    """

    def __init__(
        self,
        limit: int,
        *,
        fields: Sequence[str] = (),
        devices: Collection[str] = (),
        times: TimeSource = "wall",
        begin: int | None = None,
        end: int | None = None,
    ) -> None:
        self._limit = limit
        self._fields = tuple(dict.fromkeys(fields))
        self._devices = frozenset(devices)
        self._times = times
        self._begin = begin
        self._end = end
        self._offsets = SteadyTimes()
        self._found: dict[tuple[str, str, str], RecordedCurve] = {}
        self.known_fields: dict[str, None] = {}
        """The columns of numbers so far."""
        self.found_fields: set[str] = set()
        """Those of ``fields`` that a part has had so far."""

    @property
    def all(self) -> list[RecordedCurve]:
        """The curves in the order of their first samples, by device."""
        return list(self._found.values())

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of all curves, in nanoseconds since 1970 (UTC)."""
        spans = [span for curve in self.all if (span := curve.envelope.span) is not None]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def columns(self, schema: Any) -> list[str]:
        """The columns that are needed of a part with this schema, for its reader."""
        numbers = measured_numbers(schema)
        # add() gets a table of the chosen columns alone.
        self.known_fields |= dict.fromkeys(numbers)
        wanted = list(self._fields) if self._fields else numbers
        if not self._fields:
            devices = _described(schema)
            chosen = {_chosen(wanted, about) for about in (*devices.values(), {})}
            wanted = [name for name in wanted if name in chosen]
        clock = ["t_mono_ns"] if self._times == "steady" else []
        return ["device", "t_utc", "event", *clock, *wanted]

    def add(self, part: StoredPart) -> None:
        """Add a part or a piece of one; it has ``device`` and ``t_utc``."""
        table = part.table
        numbers = measured_numbers(table.schema)
        self.known_fields |= dict.fromkeys(numbers)
        self.found_fields.update(name for name in self._fields if name in table.column_names)
        if "event" in table.column_names and table["event"].null_count < table.num_rows:
            table = table.filter(pyarrow_module("pyarrow.compute").is_null(table["event"]))
        if not table.num_rows:
            return
        t = integers_of(table["t_utc"])
        at = self._steady(part, table, t) if self._times == "steady" else t
        codes, names = device_codes(table["device"])
        described = _described(table.schema)
        units = units_of(table.schema)
        columns: dict[str, Numbers | None] = {}
        for code, rows in _by_code(codes):
            device = names[code]
            if self._devices and device not in self._devices:
                continue
            inside = self._inside(t[rows])
            about = described.get(device, {})
            chosen = _chosen(numbers, about)
            for field in self._fields or ([chosen] if chosen is not None else []):
                if field not in columns:
                    columns[field] = numbers_of(table, field)
                values = columns[field]
                if values is None:
                    continue
                unit = unit_for(units, field, device)
                shown = np.ascontiguousarray(values[rows])[inside]
                curve = self._curve(device, field, unit, shown)
                if curve is not None:
                    curve.envelope.add(np.ascontiguousarray(at[rows])[inside], shown)
                    curve.gap_ns = _gap(about) or curve.gap_ns

    def _inside(self, t: Times) -> Any:
        """What selects the rows between begin and end."""
        if self._begin is None and self._end is None:
            return slice(None)
        inside = np.ones(len(t), bool)
        if self._begin is not None:
            inside &= t >= self._begin
        if self._end is not None:
            inside &= t < self._end
        return inside

    def _steady(self, part: StoredPart, table: Any, t: Times) -> Times:
        if "t_mono_ns" not in table.column_names:
            return t
        steady = integers_of(table["t_mono_ns"])
        offset = self._offsets.offset(part.metadata, int(t[0]), int(steady[0]))
        return t if offset is None else steady + offset

    def _curve(
        self, device: str, field: str, unit: str | None, values: Numbers
    ) -> RecordedCurve | None:
        key = (device, field, unit or "")
        found = self._found.get(key)
        # A device that does not have the quantity has rows all the same.
        if found is None and not bool(np.isnan(values).all()):
            found = RecordedCurve(device, field, unit or "", GrowingEnvelope(self._limit))
            self._found[key] = found
        return found


def _described(schema: Any) -> dict[str, dict[str, Any]]:
    """What the metadata tell of each device."""
    about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    found: dict[str, dict[str, Any]] = about.get("devices", {})
    return found


def _chosen(numbers: list[str], about: dict[str, Any]) -> str | None:
    """The column that is shown of a device if nobody asks for another."""
    own = about.get("units")
    fields = [name for name in numbers if name in own] if isinstance(own, dict) else []
    quantity = choose_quantity(dict.fromkeys(fields or numbers))
    return quantity.name if quantity is not None else None


def _gap(about: dict[str, Any]) -> int | None:
    rate = about.get("rate_hz")
    if not isinstance(rate, (int, float)) or not 0 < rate < math.inf:
        return None
    return int(_MISSED_POLLS * 1e9 / rate)


def _by_code(codes: NDArray[np.int16]) -> list[tuple[int, Any]]:
    """The codes that there are, each with what selects its rows in order."""
    period = int(codes.max()) + 1
    if period <= len(codes) and bool((codes[period:] == codes[:-period]).all()):
        first = codes[:period].tolist()
        if len(set(first)) == period:
            # Devices that are polled in turn, as nearly always: no row has to be searched.
            return [(code, slice(number, None, period)) for number, code in enumerate(first)]
    order = np.argsort(codes, kind="stable")
    starts = fold(codes[order])
    return [(int(codes[rows[0]]), rows) for rows in np.split(order, starts[1:])]


# The line that draws an envelope: no pixel that a sample would mark stays empty.

_POINTS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """Points in order of time; NaN ends a line, and the next value begins another.

    Attributes:
        t: nanoseconds since 1970 (UTC).
        values: of the quantity.
        isolated: which points have no neighbour, so that only a dot shows them.
    """

    t: Times
    values: Numbers
    isolated: Times


def line_of(bins: Bins, gap_ns: int | None = None) -> Line:
    """The line through a curve's bins.

    A bin of one value is one point. One of several is four: the first, the lowest, the highest and
    the last value, side by side within the bin. A bin without a value is a gap, and so is a time
    longer than ``gap_ns`` without a bin.
    """
    rows = len(bins)
    width = 1 << bins.power
    several = bins.count > 1
    rising = bins.last >= bins.first
    grid = np.stack(
        (
            bins.first,
            np.where(rising, bins.low, bins.high),
            np.where(rising, bins.high, bins.low),
            bins.last,
        ),
        axis=1,
    )
    # Between the points of a bin lies a quarter of its width. A point alone is in the middle.
    steps = np.array([1, 3, 5, 7]) * (width // 8)
    times = bins.begin[:, None] + np.where(several[:, None], steps, width >> 1)
    is_point = np.ones((rows, _POINTS + 1), bool)
    is_point[:, 1:_POINTS] = several[:, None]
    is_point[:, _POINTS] = False
    if gap_ns is not None and rows > 1:
        apart = np.diff(bins.begin) - width
        is_point[:-1, _POINTS] = apart > gap_ns
    t = np.concatenate((times, times[:, -1:]), axis=1)[is_point]
    values = np.concatenate((grid, np.full((rows, 1), np.nan)), axis=1)[is_point]
    none = np.isnan(values)
    before = np.concatenate(([True], none[:-1]))[: len(none)]
    behind = np.concatenate((none[1:], [True]))[: len(none)]
    return Line(t, values, np.flatnonzero(~none & before & behind))
