"""The parts of a recording under one schema, without having them in the memory together.

What the columns and units of all rows are is known after the last part only. So the rows are kept
in a temporary file until then, in sections of one run and one schema.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from penstock.record.arrow import (
    METADATA_KEY,
    name_with_unit,
    pyarrow_module,
    unit_for,
    units_of,
)
from penstock.record.run_history import merged_by_time
from penstock.record.stored_parts import plain_schema
from penstock.record.view import fitted, united_schema

_ROWS_AT_A_TIME = 1 << 16
_LATEST = 2**63 - 1
"""Nanoseconds."""


@dataclass(slots=True)
class _Section:
    """Rows of one run and schema: where they begin in the file, and their times in nanoseconds."""

    run: object
    begins_at: int
    schema: Any
    first: int | None = None
    last: int | None = None

    def note(self, first: int | None, last: int | None) -> None:
        if first is not None and last is not None:
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)


class _FromPlace(io.RawIOBase):
    """A file from one place on, with a position of its own."""

    def __init__(self, descriptor: int, place: int) -> None:
        self._descriptor, self._place = descriptor, place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._place)
        self._place += count
        return count


class UnitedParts:
    """Rows of any schemas that come in pieces and leave under one.

    A field whose unit changes for a device becomes a column for each unit, ``Mass_Flow [SCCM]`` and
    ``Mass_Flow [SLPM]``. A column that has another type in another part becomes a float if all are
    numbers, else a text.

    Args:
        folder: of the temporary file, which has no name.
    """

    def __init__(self, folder: str) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder or ".")  # noqa: SIM115 (close)
        self._sections: list[_Section] = []
        self._writer: Any = None
        self._empty: Any = None
        self._units: dict[str, dict[str, dict[str, None]]] = {}
        self._kinds: dict[str, Any] = {}
        self.rows = 0
        self._seen: dict[str, None] = {}
        self._described: dict[str, None] = {}

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    def add(self, table: Any) -> None:
        """Add rows; OSError where the disk refuses."""
        table = table.cast(plain_schema(table.schema))
        if self._empty is None or not self.rows:
            self._empty = table.schema
        if not table.num_rows:
            return
        if self._writer is None or not table.schema.equals(self._sections[-1].schema, True):
            self._end_stream()
            self._begin_section(table.schema)
        self._writer.write_table(table, _ROWS_AT_A_TIME)
        self.rows += table.num_rows
        self._note(table)

    def _begin_section(self, schema: Any) -> None:
        about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
        self._sections.append(_Section(about.get("run_id"), self._file.tell(), schema))
        self._writer = pyarrow_module().ipc.new_stream(self._file, schema)

    def _note(self, table: Any) -> None:
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        stamps = table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        span = compute.min_max(stamps).as_py()
        self._sections[-1].note(span["min"], span["max"])
        devices = [name for name in table["device"].unique().to_pylist() if name]
        self._seen |= dict.fromkeys(devices)
        about = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        self._described |= dict.fromkeys(about.get("devices", {}))
        units = units_of(table.schema)
        for name in units:
            for device in devices:
                own = unit_for(units, name, device)
                if own is not None:
                    known = self._units.setdefault(name, {}).setdefault(device, {})
                    known[own] = None

    def _end_stream(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @property
    def devices(self) -> list[str]:
        """Those that have rows, in the order of the configuration, else of their first rows."""
        known = [name for name in self._described if name in self._seen]
        return list(dict.fromkeys((*known, *self._seen)))

    @property
    def split(self) -> dict[str, list[str]]:
        """The units of the fields of which a device had more than one."""
        return {
            name: list(dict.fromkeys(unit for units in by_device.values() for unit in units))
            for name, by_device in self._units.items()
            if any(len(units) > 1 for units in by_device.values())
        }

    @property
    def schema(self) -> Any:
        """The columns of all rows, with the units of each."""
        pa = pyarrow_module()
        split = self.split
        parts = [_split(schema.empty_table(), split).schema for schema in self._schemas()]
        schema = united_schema(parts or [self._empty])
        fields = []
        for field in schema:
            units = {} if field.name in split else self._units_of(field.name)
            if units:
                agreed = len(set(units.values())) == 1
                text = (
                    next(iter(units.values())) if agreed else json.dumps(units, ensure_ascii=False)
                )
                field = field.with_metadata({"unit" if agreed else "units": text})
            fields.append(field)
        return pa.schema(fields, schema.metadata)

    def _units_of(self, name: str) -> Mapping[str, str]:
        return {device: next(iter(units)) for device, units in self._units.get(name, {}).items()}

    def tables(self) -> Iterator[Any]:
        """The rows in order, by time where runs overlap, each table with :attr:`schema`."""
        self._end_stream()
        self._file.flush()
        schema, split = self.schema, self.split
        for runs in self._overlapping():
            tables = [self._tables_of(sections, schema, split) for sections in runs]
            yield from tables[0] if len(tables) == 1 else merged_by_time(tables)

    def _schemas(self) -> list[Any]:
        return [section.schema for section in self._sections]

    def _overlapping(self) -> Iterator[list[list[_Section]]]:
        """The runs in the order of time, those together that overlap, each by its sections."""
        runs: dict[object, list[_Section]] = {}
        for section in self._sections:
            runs.setdefault(section.run, []).append(section)
        group: list[list[_Section]] = []
        until = 0
        for own, first, last in sorted(map(_with_span, runs.values()), key=lambda each: each[1:]):
            if group and first > until:
                yield group
                group = []
            until = max(until, last) if group else last
            group.append(own)
        if group:
            yield group

    def _tables_of(
        self, sections: list[_Section], schema: Any, split: Mapping[str, list[str]]
    ) -> Iterator[Any]:
        pa = pyarrow_module()
        for section in sections:
            place = io.BufferedReader(_FromPlace(self._file.fileno(), section.begins_at), 1 << 20)
            with pa.ipc.open_stream(place) as stream:
                for batch in stream:
                    table = pa.Table.from_batches([batch])
                    yield fitted(_split(table, split), schema)


def _with_span(sections: list[_Section]) -> tuple[list[_Section], int, int]:
    """The sections of a run with their first and last time; those without any come last."""
    firsts = [section.first for section in sections if section.first is not None]
    lasts = [section.last for section in sections if section.last is not None]
    return sections, min(firsts, default=_LATEST), max(lasts, default=_LATEST)


def _split(table: Any, split: Mapping[str, list[str]]) -> Any:
    """The same table with a column for each unit of the fields of ``split``."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    units = units_of(table.schema)
    for name, all_units in split.items():
        if name not in table.column_names:
            continue
        place = table.column_names.index(name)
        field, column = table.schema.field(name), table[name]
        table = table.remove_column(place)
        known = units.get(name)
        if known is None:
            # Rows of an unknown unit keep the plain name.
            table = table.add_column(place, field, column)
            continue
        nothing = pa.scalar(None, field.type)
        for unit in reversed(all_units):
            if isinstance(known, str):
                values = column if known == unit else pa.nulls(table.num_rows, field.type)
            else:
                own = pa.array([device for device, u in known.items() if u == unit], pa.string())
                mine = compute.is_in(table["device"], value_set=own)
                values = compute.if_else(mine, column, nothing)
            named = pa.field(name_with_unit(name, unit), field.type, metadata={"unit": unit})
            table = table.add_column(place, named, values)
    return table
