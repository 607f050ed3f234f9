"""Rows of a recording, from Arrow tables to NumPy columns per device."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.record.arrow import METADATA_KEY, measured_numbers, pyarrow_module, unit_for, units_of
from penstock.record.envelopes.bins import (
    Numbers,
    Times,
    device_codes,
    integers_of,
    numbers_of,
    plain_column,
)


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a recording; ``t`` in nanoseconds since 1970, ``device`` may be empty."""

    t: int
    device: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """The values of one field of one device, NaN where there is none; ``unit`` if it has one."""

    field: str
    unit: str | None
    values: Numbers


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The samples of one device in the order of recording, failed polls included.

    ``columns`` are the numbers that it has measured. ``failed`` tells of each poll whether it
    failed. ``answered`` is the position of the last poll that was answered, None if none was;
    ``status`` belongs to it. ``error`` is that of the last failed poll, None without one.
    ``last_error_t`` is its time, 0 without one.
    """

    name: str
    unit_id: str
    t: Times
    columns: tuple[MeasuredColumn, ...]
    failed: Any
    answered: int | None
    status: str
    error: str | None
    last_error_t: int


class RecordedRows:
    """The rows of one Arrow table or record batch of a recording, by device.

    Args:
        table: a ``pyarrow.Table`` or ``RecordBatch`` with the columns of a recording.
        known: fields that were numbers in earlier tables; texts of theirs that are numbers count.
    """

    def __init__(self, table: Any, known: Collection[str] = ()) -> None:
        pa = pyarrow_module()
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        self._table = table
        self._columns = frozenset(table.column_names)
        self._units = units_of(table.schema)
        numbers = measured_numbers(table.schema)
        self._fields = [*numbers, *(name for name in known if name not in numbers)]
        self._t: Times = integers_of(table["t_utc"])
        self._codes, self._names = device_codes(table["device"])
        self._event_rows = self._valid("event")
        self._error_rows = self._valid("error")
        self._values: dict[str, Numbers | None] = {}

    @property
    def names(self) -> list[str]:
        """The devices that have samples here."""
        found = np.unique(self._codes[~self._event_rows])
        return [self._names[code] for code in found.tolist()]

    @property
    def first(self) -> int | None:
        """The time of the first row in nanoseconds since 1970; None without rows."""
        return int(self._t[0]) if len(self._t) else None

    @property
    def description(self) -> bytes:
        """What is known of the run, as JSON."""
        found: bytes = (self._table.schema.metadata or {}).get(METADATA_KEY, b"{}")
        return found

    def counts(self) -> dict[str, int]:
        """The number of rows of each device, events included."""
        counts = np.bincount(self._codes, minlength=len(self._names)).tolist()
        return dict(zip(self._names, counts, strict=True))

    def without_first(self, counts: Mapping[str, int]) -> Any:
        """The table without the first rows of each device, as many as ``counts`` has of it."""
        keep = np.ones(len(self._codes), bool)
        for code, name in enumerate(self._names):
            keep[np.flatnonzero(self._codes == code)[: counts.get(name, 0)]] = False
        return self._table.filter(pyarrow_module().array(keep))

    def events(self) -> Iterator[EventRow]:
        """The rows that are events, in the order of recording."""
        rows = np.flatnonzero(self._event_rows)
        if not len(rows):
            return
        taken = self._table.take(pyarrow_module().array(rows))
        kinds = taken["event"].to_pylist()
        messages: list[str | None] = [None] * len(rows)
        if "message" in self._columns:
            messages = taken["message"].to_pylist()
        for row, kind, message in zip(rows.tolist(), kinds, messages, strict=True):
            yield EventRow(
                int(self._t[row]), self._names[int(self._codes[row])], str(kind), message or ""
            )

    def devices(self) -> Iterator[DeviceRows]:
        """The samples of each device."""
        samples = np.flatnonzero(~self._event_rows)
        order = samples[np.argsort(self._codes[samples], kind="stable")]
        codes = self._codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for rows in np.split(order, starts)[1:]:
            name = self._names[int(self._codes[rows[0]])]
            failed = self._error_rows[rows]
            answered, failures = np.flatnonzero(~failed), np.flatnonzero(failed)
            newest = int(answered[-1]) if len(answered) else None
            worst = int(rows[failures[-1]]) if len(failures) else None
            yield DeviceRows(
                name=name,
                unit_id=self._text_at("unit_id", int(rows[-1])),
                t=self._t[rows],
                columns=tuple(self._measured(name, rows)),
                failed=failed,
                answered=newest,
                status=self._text_at("status", int(rows[newest])) if newest is not None else "",
                error=self._text_at("error", worst) if worst is not None else None,
                last_error_t=int(self._t[worst]) if worst is not None else 0,
            )

    def _measured(self, device: str, rows: Any) -> Iterator[MeasuredColumn]:
        for field in self._fields:
            if field not in self._values:
                self._values[field] = numbers_of(self._table, field)
            column = self._values[field]
            if column is None:
                continue
            values = column[rows]
            # A device that does not have the quantity has rows all the same.
            if not bool(np.isnan(values).all()):
                yield MeasuredColumn(field, unit_for(self._units, field, device), values)

    def _valid(self, name: str) -> Any:
        if name not in self._columns:
            return np.zeros(len(self._t), bool)
        return plain_column(self._table[name]).is_valid().to_numpy(zero_copy_only=False)

    def _text_at(self, name: str, row: int) -> str:
        text = self._table[name][row].as_py() if name in self._columns else None
        return "" if text is None else str(text)
