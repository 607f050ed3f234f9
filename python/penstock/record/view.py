"""Recordings as Arrow tables, data frames and NumPy arrays, whatever their format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.record.arrow import METADATA_KEY, pyarrow_module, units_of
from penstock.record.errors import RecordError
from penstock.record.postgres_parts import is_postgres, postgres_parts
from penstock.record.stored_parts import StoredPart, check_recording, plain_schema, stored_parts

__all__ = ["StoredRecording", "open_recording"]


def open_recording(path: str | os.PathLike[str], *, table: str = "samples") -> StoredRecording:
    """Open a recording to read it: a file, or a folder of parts, also while it grows.

    ::

        frame = penstock.record.open("run").to_pandas()

    All parts belong to it: ``run.part2.csv`` is read with ``run.csv``. Rows that are only in a
    journal are read too. Nothing is changed, also where a run was cut off.

    Args:
        path: Parquet, Arrow, CSV, JSON Lines, SQLite, a folder of parts, or a folder of such files.
            The suffix tells; of a folder with the same rows in several formats one is read. Or
            a ``postgresql://`` URI.
        table: of SQLite and PostgreSQL, the name given to the sink.

    Raises:
        RecordError: if there is no such recording, or it is of no known format.
        SinkDependencyError: without pyarrow.
    """
    pyarrow_module()
    if is_postgres(target := os.fspath(path)):
        return StoredRecording(Path(table), lambda: postgres_parts(target, table))
    check_recording(Path(path))
    return StoredRecording(Path(path), lambda: stored_parts(Path(path), table))


class StoredRecording:
    """A recording on disk or in a database. Each call reads it again. Any thread may use it."""

    def __init__(self, path: Path, read: Callable[[], Iterator[StoredPart]]) -> None:
        self.path = path
        self._read = read

    def __repr__(self) -> str:
        return f"<StoredRecording {str(self.path)!r}>"

    def tables(self) -> Iterator[Any]:
        """The parts as ``pyarrow.Table`` in the order of recording, each with its own columns.

        The schema of each has the metadata under ``penstock`` and the units at its fields.
        """
        for part in self.parts():
            yield part.table

    def parts(self) -> Iterator[StoredPart]:
        """The parts in the order of recording, each read when it is asked for."""
        return self._read()

    def to_arrow(self) -> Any:
        """All rows as one ``pyarrow.Table``; a column that a part does not have is null there.

        Texts are not dictionary encoded. The units of the last part that has one stay at the
        field; see :meth:`tables` for a recording whose units have changed.
        """
        pa = pyarrow_module()
        tables = [_without_dictionaries(pa, table) for table in self.tables()]
        if not tables:
            raise RecordError(f"{self.path} holds no rows yet")
        kinds: dict[str, Any] = {}
        for table in tables:
            for field in table.schema:
                before = kinds.get(field.name)
                if before is not None and before.type != field.type:
                    field = field.with_type(_common_type(pa, before.type, field.type))
                kinds[field.name] = field.with_nullable(True)
        schema = pa.schema(list(kinds.values()), tables[-1].schema.metadata)
        return pa.concat_tables([_fitted(pa, table, schema) for table in tables])

    def to_pandas(self) -> Any:
        """All rows as a ``pandas.DataFrame``, times as UTC; ImportError without pandas."""
        return self.to_arrow().to_pandas()

    def to_numpy(self) -> dict[str, Any]:
        """All columns as NumPy arrays by name.

        Times are ``datetime64[ns]``; numbers with nulls are floats with NaN; texts are objects.
        """
        return {name: column.to_numpy() for name, column in zip(*_named_columns(self), strict=True)}

    def quantity(self, name: str, device: str, registry: Any = None) -> Any:
        """One field of one device with its unit, as a ``pint.Quantity`` of a NumPy array.

        Args:
            name: the field.
            device: the device, whose unit counts.
            registry: a ``pint.UnitRegistry``; by default one with the units of gas flow.

        Raises:
            RecordError: if the field has no unit, or the unit changes within the recording.
            ImportError: without pint.
        """
        from penstock.record._columns.pint_units import quantity_of

        return quantity_of(self, name, device, registry)

    def units(self) -> dict[str, str | dict[str, str]]:
        """The unit of each field that has one; each device's, where they differ."""
        found: dict[str, str | dict[str, str]] = {}
        for table in self.tables():
            found.update(units_of(table.schema))
        return found

    def events(self) -> Any:
        """The rows that are events, as a ``pyarrow.Table``."""
        compute = pyarrow_module("pyarrow.compute")
        table = self.to_arrow()
        if "event" not in table.schema.names:
            return table.slice(0, 0)
        return table.filter(compute.is_valid(table["event"]))

    @property
    def metadata(self) -> dict[str, Any]:
        """What was known of the recording when its last part began."""
        found: dict[str, Any] = {}
        for table in self.tables():
            found = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        return found


def _without_dictionaries(pa: Any, table: Any) -> Any:
    return table.cast(plain_schema(table.schema))


def _common_type(pa: Any, one: Any, other: Any) -> Any:
    numbers = all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in (one, other))
    return pa.float64() if numbers else pa.string()


def _fitted(pa: Any, table: Any, schema: Any) -> Any:
    columns = []
    for field in schema:
        if field.name in table.schema.names:
            columns.append(table[field.name].cast(field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.table(columns, schema=schema)


def _named_columns(recording: StoredRecording) -> tuple[list[str], list[Any]]:
    pa = pyarrow_module()
    table = recording.to_arrow()
    columns = []
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("ns"))
        columns.append(column)
    return table.schema.names, columns
