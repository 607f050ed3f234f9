"""The parts of a recording under one schema, without having them in the memory together.

What the columns and units of all rows are is known behind the last part only. So the rows are kept
in a temporary file until then.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from penstock.record.arrow import (
    METADATA_KEY,
    name_with_unit,
    pyarrow_module,
    unit_for,
    units_of,
)
from penstock.record.stored_parts import plain_schema
from penstock.record.view import fitted, united_schema

__all__ = ["UnitedParts"]

_ROWS_AT_A_TIME = 1 << 16


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
        self._schemas: list[Any] = []
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
        pa = pyarrow_module()
        table = table.cast(plain_schema(table.schema))
        if self._empty is None or not self.rows:
            self._empty = table.schema
        if not table.num_rows:
            return
        if self._writer is None or not table.schema.equals(self._schemas[-1], True):
            self._end_stream()
            self._writer = pa.ipc.new_stream(self._file, table.schema)
            self._schemas.append(table.schema)
        self._writer.write_table(table, _ROWS_AT_A_TIME)
        self.rows += table.num_rows
        self._note(table)

    def _note(self, table: Any) -> None:
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
        parts = [_split(schema.empty_table(), split).schema for schema in self._schemas]
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
        """The rows in order, each table with :attr:`schema`."""
        pa = pyarrow_module()
        self._end_stream()
        self._file.flush()
        self._file.seek(0, os.SEEK_SET)
        schema, split = self.schema, self.split
        for _ in self._schemas:
            with pa.ipc.open_stream(self._file) as stream:
                for batch in stream:
                    table = pa.Table.from_batches([batch])
                    yield fitted(_split(table, split), schema)


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
