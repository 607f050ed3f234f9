"""Recordings as Arrow tables, data frames and NumPy arrays, whatever their format."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.record._postgres_copy import quoted
from penstock.record._stored.table_files import Columns, chosen_columns
from penstock.record.addresses import plain_url, refuse_url
from penstock.record.arrow import (
    METADATA_KEY,
    arrow_schema,
    common_type,
    pyarrow_module,
    unit_for,
    units_of,
)
from penstock.record.damage import Damage, DamageList
from penstock.record.errors import RecordError
from penstock.record.postgres_server import PostgresServer, is_part, is_postgres, load_psycopg
from penstock.record.run_history import Pause, RecordedRun, merged_by_time, pauses_between, runs_of
from penstock.record.stored_parts import (
    StoredPart,
    check_recording,
    described_schema,
    plain_schema,
    recordings_in_order,
    stored_parts,
    stored_pieces,
)

__all__ = ["StoredRecording", "fitted", "open_recording", "united_schema"]

# The ends of a number of 64 bits.
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


def open_recording(
    path: str | os.PathLike[str], *, table: str = "samples", strict: bool = True
) -> StoredRecording:
    """Open a recording to read it: a file, or a folder of parts, even while it grows.

    ::

        frame = penstock.record.open("run").to_pandas()

    A recording has all its parts: ``run.part2.csv`` is read with ``run.csv``, and so are rows that
    are only in a journal. Reading changes no file, even if a run was cut off.

    A folder may hold several runs, for example of a recorder that was started again: files of other
    names, or folders of runs, at most five levels below. They are read as one recording, in the
    order of their first rows. ``runs`` and ``pauses`` of the result list them. If a run is there in
    several formats, the format with most rows is read.

    Args:
        path: a Parquet, Arrow, CSV, JSON Lines or SQLite file, recognised by its suffix; a folder
            of parts; a folder of such files and folders; or a ``postgresql://`` URI.
        table: for SQLite and PostgreSQL, the name of the table that was given to the sink.
        strict: raise DamagedError at the first place that cannot be read. Otherwise the good rows
            are read, and ``damages`` lists the places that are left out. A torn end, which SIGKILL
            leaves, is listed and raises nothing.

    Raises:
        RecordError: there is no such recording, or its format is not known. The reading methods
            raise RecordError too, and DamagedError, a subclass of it.
        SinkDependencyError: pyarrow is missing.
    """
    pyarrow_module()
    if is_postgres(target := os.fspath(path)):
        return StoredRecording(Path(table), lambda: postgres_parts(target, table))
    try:
        refuse_url(target, "give the path of a recording, or a postgresql:// URI")
    except ValueError as error:
        raise RecordError(str(error)) from error
    check_recording(Path(path))
    damages = DamageList(strict=strict)
    return StoredRecording(
        Path(path),
        lambda: stored_parts(Path(path), table, damages),
        damages,
        lambda columns: stored_pieces(Path(path), table, damages, columns),
        lambda columns: [
            stored_pieces(each, table, damages, columns)
            for each in recordings_in_order(Path(path), table, damages)
        ],
    )


class StoredRecording:
    """A recording on disk or in a database. Each call reads it again. Any thread may use it."""

    def __init__(
        self,
        path: Path,
        read: Callable[[], Iterator[StoredPart]],
        damages: DamageList | None = None,
        read_pieces: Callable[[Columns], Iterator[StoredPart]] | None = None,
        read_each: Callable[[Columns], list[Iterator[StoredPart]]] | None = None,
    ) -> None:
        self.path = path
        self._read = read
        self._read_pieces = read_pieces
        self._read_each = read_each
        self._damages = DamageList(strict=True) if damages is None else damages

    def __repr__(self) -> str:
        return f"<StoredRecording {str(self.path)!r}>"

    def tables(self) -> Iterator[Any]:
        """The parts as ``pyarrow.Table`` in the order of recording, each with its own columns.

        The schema of each has the metadata under ``penstock`` and the units at its fields.
        """
        for part in self.parts():
            yield part.table

    def parts(self) -> Iterator[StoredPart]:
        """The parts in the order of recording, each read when it is asked for.

        A part has rows of one run, with their columns and units. Runs that overlap in time come one
        after the other; :meth:`merged_tables` merges their rows by time.

        Raises:
            DamagedError: a place cannot be read, unless the recording was opened with
                ``strict=False``.
        """
        self._damages.clear()
        return self._read()

    def pieces(
        self, columns: Sequence[str] | Callable[[Any], Sequence[str]] | None = None
    ) -> Iterator[StoredPart]:
        """The parts of :meth:`parts`, with long ones divided into consecutive pieces.

        So a recording may be larger than the memory. Only tables of a PostgreSQL server are read
        whole.

        Args:
            columns: the needed columns, or a function that chooses them from the ``pyarrow.Schema``
                of a part. Other columns are left out where that saves time; ``names`` of a part
                lists all columns.
        """
        self._damages.clear()
        return self._read() if self._read_pieces is None else self._read_pieces(columns)

    def merged_tables(
        self, columns: Sequence[str] | Callable[[Any], Sequence[str]] | None = None
    ) -> Iterator[Any]:
        """The rows of :meth:`to_arrow` in pieces, for a recording larger than the memory.

        All tables have one schema; the recording is read twice, first for the schema. Rows of runs
        that overlap in time are in the order of ``t_utc``, if the runs are in different files; one
        piece of each such run is in memory at a time. Tables of a PostgreSQL server are read whole.
        A recording without rows yields no table.

        Args:
            columns: the needed columns, as for :meth:`pieces`; ``t_utc`` is always included.
        """
        wanted = _with_times(columns)
        if self._read_each is None:
            table = self.to_arrow()
            names = chosen_columns(wanted, table.schema)
            yield table if names is None else table.select(names)
            return
        self._damages.clear()
        spans: list[tuple[int, int, int]] = []
        schemas: list[Any] = []
        for number, pieces in enumerate(self._read_each(wanted)):
            begin, end = _LATEST, _EARLIEST
            for table in _chosen(pieces, wanted):
                if not schemas or not table.schema.equals(schemas[-1], check_metadata=True):
                    schemas.append(table.schema)
                first, last = _span(table)
                begin, end = min(begin, first), max(end, last)
            spans.append((begin, number, end))
        if not schemas:
            return
        schema = united_schema(schemas)
        self._damages.clear()
        sources = self._read_each(wanted)
        for group in _overlapping(spans):
            runs = [
                (fitted(table, schema) for table in _chosen(sources[number], wanted))
                for number in group
            ]
            yield from runs[0] if len(runs) == 1 else merged_by_time(runs)

    @property
    def damages(self) -> tuple[Damage, ...]:
        """The places that the last reading has left out so far: the first thousand of them.

        ``damage_count`` counts them all.
        """
        return tuple(self._damages.listed)

    @property
    def damage_count(self) -> int:
        """The number of places that the last reading has left out so far."""
        return self._damages.count

    def to_arrow(self) -> Any:
        """All rows as one ``pyarrow.Table``; a column that a part does not have is null there.

        Rows of runs that overlap are in the order of ``t_utc``; the rows of one run stay in the
        order of recording. Texts are not dictionary encoded. A field has the unit of the last part
        that has the field; use :meth:`tables` for a recording whose units have changed.

        Raises:
            RecordError: the recording has no rows yet.
        """
        tables = list(self.tables())
        if not tables:
            raise RecordError(f"{self.path} holds no rows yet")
        return _in_order(tables)

    def runs(self) -> list[RecordedRun]:
        """The runs in the order of their first rows: one for each start of a recorder."""
        return runs_of(self.pieces(("device", "t_utc")))

    def pauses(self) -> list[Pause]:
        """The times between the runs, in which no recorder ran."""
        return pauses_between(self.runs())

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
            device: the device; devices may have the same field in different units.
            registry: a ``pint.UnitRegistry``; by default one with the units of gas flow.

        Raises:
            RecordError: the recording has no such field or no rows of the device, the field has no
                unit, or its unit changes within the recording.
            ImportError: pint is missing.
        """
        return quantity_of(self, name, device, registry)

    def units(self) -> dict[str, str | dict[str, str]]:
        """The unit of each field that has one; a dict by device where the devices' units differ."""
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
        """The metadata of the last part, as it was when that part began."""
        found: dict[str, Any] = {}
        for table in self.tables():
            found = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        return found


def _with_times(columns: Columns) -> Columns:
    if columns is None:
        return None
    if callable(columns):
        choose = columns
        return lambda schema: [*choose(schema), "t_utc"]
    return [*columns, "t_utc"]


def _chosen(pieces: Iterable[StoredPart], columns: Columns) -> Iterator[Any]:
    """The tables of pieces with no other columns, none of them a dictionary."""
    for piece in pieces:
        table = piece.table.cast(plain_schema(piece.table.schema))
        names = chosen_columns(columns, table.schema)
        yield table if names is None else table.select(names)


def _span(table: Any) -> tuple[int, int]:
    """The first and the last time; in the wrong order for a table without any."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    if "t_utc" not in table.column_names:
        return _LATEST, _EARLIEST
    stamps = table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    ends = compute.min_max(stamps).as_py()
    return (ends["min"], ends["max"]) if ends["min"] is not None else (_LATEST, _EARLIEST)


def _overlapping(spans: Iterable[tuple[int, int, int]]) -> Iterator[list[int]]:
    """The numbers of spans (begin, number, end), those together that overlap, in order."""
    group: list[int] = []
    until = _EARLIEST
    for begin, number, end in sorted(spans):
        if group and begin > until:
            yield group
            group = []
        group.append(number)
        until = max(until, end)
    if group:
        yield group


def _in_order(tables: Sequence[Any]) -> Any:
    """All rows as one table, in the order of time where runs overlap.

    The rows of one run stay in the order of recording, even where the clock was set back: a row
    counts as not earlier than those before it.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    found = joined(tables)
    spans: dict[object, tuple[int, int]] = {}
    keys = []
    for table in tables:
        if "t_utc" not in table.column_names:
            keys.append(pa.chunked_array([pa.nulls(len(table), pa.int64())]))
            continue
        run = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}")).get("run_id")
        begin, end = spans.get(run, (_LATEST, _EARLIEST))
        stamps = table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        keys.append(compute.cumulative_max(stamps, start=end, skip_nulls=True))
        ends = compute.min_max(stamps).as_py()
        if ends["min"] is not None:
            spans[run] = min(begin, ends["min"]), max(end, ends["max"])
    in_time = sorted(spans.values())
    if all(one[1] <= other[0] for one, other in pairwise(in_time)):
        return found
    key = pa.chunked_array([chunk for each in keys for chunk in each.chunks], pa.int64())
    # A stable sort: equal times stay in the order of recording.
    return found.take(compute.sort_indices(key))


def joined(tables: Sequence[Any]) -> Any:
    """The rows of several parts as one table, with the columns of all of them.

    A column whose type differs between parts becomes a float if all types are numbers, else a text.
    """
    pa = pyarrow_module()
    tables = [table.cast(plain_schema(table.schema)) for table in tables]
    schema = united_schema([table.schema for table in tables])
    return pa.concat_tables([fitted(table, schema) for table in tables])


def united_schema(schemas: Sequence[Any]) -> Any:
    """The columns of all ``schemas``, with the metadata of the last one; see :func:`joined`."""
    pa = pyarrow_module()
    kinds: dict[str, Any] = {}
    for schema in schemas:
        for field in schema:
            before = kinds.get(field.name)
            if before is not None and before.type != field.type:
                field = field.with_type(common_type(before.type, field.type))
            kinds[field.name] = field.with_nullable(True)
    return pa.schema(list(kinds.values()), schemas[-1].metadata)


def fitted(table: Any, schema: Any) -> Any:
    """The columns of ``schema``; null where the table does not have one."""
    pa = pyarrow_module()
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


# Recordings in a PostgreSQL database as Arrow tables.


def postgres_parts(dsn: str, table: str) -> Iterator[StoredPart]:
    """The tables of a recording, in the order of recording, by its URI and first table.

    RecordError where they cannot be read; it does not show the password.
    """
    psycopg = load_psycopg()
    namespace, _, base = table.rpartition(".")
    prefix = f"{quoted(namespace)}." if namespace else ""
    try:
        with psycopg.connect(plain_url(dsn), autocommit=True) as connection:
            listed = connection.execute(
                f"SELECT name, columns, recording FROM {prefix}penstock_parts ORDER BY part"
            ).fetchall()
            for name, columns, recording in listed:
                if is_part(name, base):
                    schema = plain_schema(arrow_schema(described_schema(columns, recording)))
                    rows = _rows(connection, f"{prefix}{quoted(name)}", schema)
                    yield StoredPart(Path(name), rows)
    except psycopg.Error as error:
        server = PostgresServer(dsn, table, connect_timeout=0)
        raise RecordError(f"cannot read {server}: {' '.join(str(error).split())}") from error


def _rows(connection: Any, table: str, schema: Any) -> Any:
    pa = pyarrow_module()
    columns = ", ".join(map(quoted, schema.names))
    # Rows are only ever added, so they lie in the order of recording: in a table, and in each chunk
    # of a hypertable, which are created one after the other.
    order = "tableoid, ctid"
    found = connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()
    cells = list(zip(*found, strict=True)) if found else [()] * len(schema)
    arrays = []
    for column, field in zip(cells, schema, strict=True):
        # The server keeps microseconds.
        stored = pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type
        arrays.append(pa.array(column, stored).cast(field.type))
    return pa.table(arrays, schema=schema)


# Recorded fields as quantities of pint.

# Units of flow at standard (S) and normal (N) conditions: volumes of their own kind, since they
# count particles. They convert to each other's prefixes and times, never to a volume of pipe.
_DEFINITIONS = (
    "standard_liter = [standard_volume] = SL",
    "normal_liter = [normal_volume] = NL",
    "SLPM = standard_liter / minute",
    "SLM = standard_liter / minute",
    "SCCM = standard_liter / minute / 1000",
    "SLPS = standard_liter / second",
    "SCCS = standard_liter / second / 1000",
    "NLPM = normal_liter / minute",
    "NCCM = normal_liter / minute / 1000",
    "LPM = liter / minute",
    "CCM = cm ** 3 / minute",
    "PSIA = psi",
    "PSIG = psi",
    "PSID = psi",
    "barA = bar",
    "barG = bar",
)


@lru_cache(maxsize=1)
def _registry() -> Any:
    registry = importlib.import_module("pint").UnitRegistry(autoconvert_offset_to_baseunit=True)
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def quantity_of(recording: StoredRecording, name: str, device: str, registry: Any) -> Any:
    """See :meth:`StoredRecording.quantity`."""
    compute = pyarrow_module("pyarrow.compute")
    pa = pyarrow_module()
    units, values = set(), []
    has_field = False
    for table in recording.tables():
        if name not in table.schema.names:
            continue
        has_field = True
        rows = table.filter(compute.equal(table["device"].cast(pa.string()), device))
        if not len(rows):
            continue  # another device may have the field in another unit
        units.add(unit_for(units_of(table.schema), name, device))
        values.append(rows[name])
    if not has_field:
        raise RecordError(f"{recording.path} has no field {name!r}; to_arrow() has all columns")
    if not units:
        raise RecordError(f"{recording.path} has no {name!r} of a device {device!r}")
    if units == {None}:
        raise RecordError(f"{name!r} of {device!r} has no unit in {recording.path}; use to_numpy()")
    if len(units) > 1:
        found = ", ".join(sorted(unit or "none" for unit in units))
        raise RecordError(
            f"{name!r} of {device!r} has more than one unit in {recording.path}: {found}; tables()"
            " has the unit of each part"
        )
    numbers = pa.chunked_array(
        [chunk for column in values for chunk in column.chunks], pa.float64()
    )
    registry = _registry() if registry is None else registry
    unit = units.pop()
    # Alicat prints temperature as a letter with a degree sign or a backtick before it.
    return registry.Quantity(numbers.to_numpy(), _TEMPERATURES.get(str(unit), str(unit)))


_TEMPERATURES = {
    "`C": "degC",
    "°C": "degC",
    "C": "degC",
    "`F": "degF",
    "°F": "degF",
    "F": "degF",
    "`K": "K",
}
