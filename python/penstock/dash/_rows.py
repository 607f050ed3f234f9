"""Rows of a recording, from Arrow tables to NumPy columns per device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.dash._curve import Numbers, Times
from penstock.record.arrow import METADATA_KEY, measured_numbers, pyarrow_module, unit_for, units_of
from penstock.record.shown_quantity import Quantity, choose_quantity

__all__ = ["DeviceRows", "EventRow", "RecordedRows"]


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a recording; ``t`` in nanoseconds since 1970, ``device`` may be empty."""

    t: int
    device: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The samples of one device in the order of recording, failed polls included.

    ``answered`` is the position of the last poll that was answered, None if none was; ``status``
    belongs to it. ``errors`` counts the failed polls; ``error`` is that of the last row, None if it
    was answered.
    ``last_error_t`` is the time of the last failed poll, 0 without one.
    """

    name: str
    unit_id: str
    quantity: Quantity | None
    t: Times
    value: Numbers
    setpoint: Numbers
    answered: int | None
    status: str
    error: str | None
    errors: int
    last_error_t: int


class RecordedRows:
    """The rows of one Arrow table or record batch of a recording, by device.

    Args:
        table: a ``pyarrow.Table`` or ``RecordBatch`` with the columns of a recording.
    """

    def __init__(self, table: Any) -> None:
        pa = pyarrow_module()
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        self._table = table
        self._columns = frozenset(table.column_names)
        self._units = units_of(table.schema)
        self._numbers = measured_numbers(table.schema)
        self._t: Times = self._plain("t_utc").cast(pa.int64()).to_numpy()
        self._codes, self._names = self._texts("device")
        self._event_rows = self._valid("event")
        self._error_rows = self._valid("error")
        self._values: dict[str, tuple[Numbers, Any]] = {}

    @property
    def names(self) -> list[str]:
        """The devices that have samples here."""
        found = np.unique(self._codes[~self._event_rows])
        return [self._names[code] for code in found.tolist()]

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

    def devices(self, known: Mapping[str, Quantity]) -> Iterator[DeviceRows]:
        """The samples of each device.

        ``known`` has the quantity that is already shown of a device; it is kept while its column is
        there.
        """
        samples = np.flatnonzero(~self._event_rows)
        order = samples[np.argsort(self._codes[samples], kind="stable")]
        codes = self._codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for rows in np.split(order, starts)[1:]:
            name = self._names[int(self._codes[rows[0]])]
            quantity = self._quantity_of(name, rows, known.get(name))
            value_column = quantity.name if quantity is not None else None
            setpoint_column = quantity.setpoint if quantity is not None else None
            failed = rows[self._error_rows[rows]]
            answered = np.flatnonzero(~self._error_rows[rows])
            newest = int(answered[-1]) if len(answered) else None
            last = int(rows[-1])
            yield DeviceRows(
                name=name,
                unit_id=self._text_at("unit_id", last),
                quantity=quantity,
                t=self._t[rows],
                value=self._numbers_of(value_column, rows),
                setpoint=self._numbers_of(setpoint_column, rows),
                answered=newest,
                status=self._text_at("status", int(rows[newest])) if newest is not None else "",
                error=self._text_at("error", last) if bool(self._error_rows[last]) else None,
                errors=len(failed),
                last_error_t=int(self._t[failed[-1]]) if len(failed) else 0,
            )

    def _quantity_of(self, name: str, rows: Any, known: Quantity | None) -> Quantity | None:
        """The quantity of a device: of the fields that it has values of, since others have more."""
        if known is not None and known.name in self._numbers:
            return Quantity(known.name, known.setpoint, self._unit(known.name, name) or known.unit)
        fields = {
            field: self._unit(field, name)
            for field in self._numbers
            if bool(self._column(field)[1][rows].any())
        }
        return choose_quantity(fields)

    def _unit(self, field: str, device: str) -> str | None:
        return unit_for(self._units, field, device)

    def _numbers_of(self, field: str | None, rows: Any) -> Numbers:
        if field is None or field not in self._columns:
            return np.full(len(rows), np.nan)
        values: Numbers = self._column(field)[0][rows]
        return values

    def _column(self, field: str) -> tuple[Numbers, Any]:
        """A column as floats, NaN where it is null, and which of them are there."""
        found = self._values.get(field)
        if found is None:
            pa = pyarrow_module()
            values = self._plain(field).cast(pa.float64()).to_numpy(zero_copy_only=False)
            found = self._values[field] = values, ~np.isnan(values)
        return found

    def _plain(self, name: str) -> Any:
        """A column in one piece."""
        column = self._table[name].combine_chunks()
        pa = pyarrow_module()
        # Of a table without rows, older versions return a chunked array all the same.
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        return column

    def _texts(self, name: str) -> tuple[Any, list[str]]:
        pa = pyarrow_module()
        column = self._plain(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, [str(text) for text in column.dictionary.to_pylist()]

    def _valid(self, name: str) -> Any:
        if name not in self._columns:
            return np.zeros(len(self._t), bool)
        return self._plain(name).is_valid().to_numpy(zero_copy_only=False)

    def _text_at(self, name: str, row: int) -> str:
        text = self._table[name][row].as_py() if name in self._columns else None
        return "" if text is None else str(text)
