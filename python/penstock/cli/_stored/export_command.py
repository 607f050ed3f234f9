"""``penstock export``: a recording in another format, at other steps, in other units.

The rows are read in pieces and kept in a temporary file beside the target until all columns and
units are known; then they are written, and the target gets its name. So the memory holds some
pieces, however long the recording is. ``--wide`` alone has all rows in the memory.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from penstock._durable_files import put_file
from penstock.cli._errors import CommandError, ExitCode, already_exists, explain_os_error, one_line
from penstock.cli._stored.conversion import conversion, convert
from penstock.cli._stored.exported_times import ExportedTimes
from penstock.cli._stored.reading import (
    name_of,
    read_parts,
    refuse_own_file,
    samples_of,
)
from penstock.cli._stored.united_parts import UnitedParts
from penstock.record.addresses import scheme_of
from penstock.record.arrow import is_number, name_with_unit, pyarrow_module, unit_for, units_of
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.exported_tables import TABLE_WRITERS, TableWriter, describe_table, described_in
from penstock.record.run_history import RunTally
from penstock.record.schema import LEADING_COLUMNS, RESERVED_COLUMNS, TIME_COLUMNS
from penstock.record.stored_parts import plain_schema


def run_export(options: argparse.Namespace) -> int:
    """Write ``options.file`` to ``options.out`` in the format of its suffix."""
    if scheme_of(options.out):
        raise CommandError(
            "an export is written to a file, not to a server; name a file such as run.parquet",
            ExitCode.USAGE,
        )
    out = Path(options.out)
    write = TABLE_WRITERS.get(out.suffix)
    if write is None:
        raise CommandError(
            f"{out} has no format that can be written; its suffix must be one of "
            f"{', '.join(TABLE_WRITERS)}",
            ExitCode.USAGE,
        )
    for taken in (out, described_in(out)):
        if os.path.lexists(taken) and not options.overwrite:
            raise CommandError(
                f"{taken} already exists; add --overwrite to replace it or choose another name",
                ExitCode.OUTPUT,
            )
    refuse_own_file(options.file, out)
    wanted = dict(conversion(text) for text in options.unit)
    notes: dict[str, str] = {}
    tally = RunTally()
    try:
        with closing(UnitedParts(os.path.dirname(out))) as parts:
            for table in _selected(options, wanted, notes, tally):
                parts.add(table)
            rows = _put(out, write, parts, notes, options)
            split = parts.split
    except FileExistsError as error:
        raise already_exists(out) from error
    except OSError as error:
        raise explain_os_error(error, out, kind="file", option="OUT") from error
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:  # a column of a kind that no recording has
        raise CommandError(f"cannot write {out}: {one_line(error)}", ExitCode.OUTPUT) from error
    if options.json:
        told = {"file": str(out), "rows": rows, "converted": notes, "split": split}
        print(json.dumps({**told, "pauses": [str(pause) for pause in tally.pauses]}))
        return ExitCode.OK
    print(f"wrote {out}: {rows} rows")
    for pause in tally.pauses:
        print(f"  pause: {pause}")
    for name, text in notes.items():
        print(f"  {name}: {text}")
    for name, units in split.items():
        print(f"  {name}: its unit changes, so {', '.join(units)} have a column each")
    return ExitCode.OK


def _selected(
    options: argparse.Namespace,
    wanted: Mapping[str, str],
    notes: dict[str, str],
    tally: RunTally,
) -> Iterator[Any]:
    """The rows and columns that are asked for, at their steps and in their units."""
    selection = Selection(options)
    every: float | None = options.every
    times = ExportedTimes("utc" if options.wide else options.time)
    resampler = Resampler(every, options.method) if every is not None else None
    for part in read_parts(
        options.file,
        options.table,
        needs=("device", "t_utc"),
        pieces=True,
        columns=selection.columns,
        rows_needed=True,
    ):
        tally.add(part)
        part.table = selection.of(part.table)
        convert(part, wanted, options, notes)
        if resampler is None:
            yield times.of(part.table, part.metadata)
        else:
            yield from map(times.of, resampler.of(part.table))
    if resampler is not None:
        yield from map(times.of, resampler.rest())
    selection.check(name_of(options.file, options.table))


def _put(
    out: Path,
    write: TableWriter,
    parts: UnitedParts,
    notes: Mapping[str, str],
    options: argparse.Namespace,
) -> int:
    """Write the rows; return how many there are."""
    tables: Iterable[Any] = parts.tables()
    schema, rows = parts.schema, parts.rows
    if options.wide:
        table = ExportedTimes(options.time).of(wide_table(tables, schema, parts.devices))
        tables, schema, rows = [table], table.schema, table.num_rows
    if notes:
        about = {**(schema.metadata or {}), b"penstock.converted": json.dumps(notes).encode()}
        schema = schema.with_metadata(about)
    if options.header_units:
        schema = _with_units_in_names(schema)
    shown = (table.rename_columns(schema.names).cast(schema) for table in tables)
    fill = partial(_fill, write=write, tables=shown, schema=schema)
    os.close(put_file(out, fill, overwrite=True))
    describe_table(out, schema, rows, {"converted": dict(notes)} if notes else {})
    return rows


def _fill(descriptor: int, *, write: TableWriter, tables: Iterable[Any], schema: Any) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        write(tables, schema, file)


def _with_units_in_names(schema: Any) -> Any:
    """The same columns, those of one unit as ``NAME [UNIT]``."""
    pa = pyarrow_module()
    units = units_of(schema)
    fields = []
    for field in schema:
        unit = units.get(field.name)
        name = name_with_unit(field.name, unit) if isinstance(unit, str) else field.name
        fields.append(field.with_name(name))
    return pa.schema(fields, schema.metadata)


# Which rows and columns of a recording are exported.


class Selection:
    """What ``--from``, ``--to``, ``--device`` and ``--field`` leave of a recording."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._devices = list(options.device)
        self._fields = list(options.field)
        self._begin: int | None = options.begin
        self._end: int | None = options.end
        self._known: dict[str, None] = {}

    def columns(self, schema: Any) -> list[str]:
        """The columns that are exported of a part with this schema."""
        self._known |= dict.fromkeys(name for name in schema.names if name not in RESERVED_COLUMNS)
        if not self._fields:
            return list(schema.names)
        return [name for name in schema.names if name in RESERVED_COLUMNS or name in self._fields]

    def of(self, table: Any) -> Any:
        """The rows and columns of a table that are exported."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        table = table.select(self.columns(table.schema))
        if self._devices:
            wanted = pa.array(self._devices, pa.string())
            devices = table["device"].cast(pa.string())
            table = table.filter(compute.is_in(devices, value_set=wanted))
        for bound, test in ((self._begin, compute.greater_equal), (self._end, compute.less)):
            if bound is not None:
                kind = pa.timestamp("ns", table.schema.field("t_utc").type.tz)
                table = table.filter(
                    test(table["t_utc"].cast(kind), pa.scalar(bound, pa.int64()).cast(kind))
                )
        return table

    def check(self, name: str) -> None:
        """Refuse a field that no part of the recording ``name`` has; CommandError."""
        for field in self._fields:
            if field not in self._known:
                known = ", ".join(self._known) or "none"
                raise CommandError(f"{name} has no column {field}; it has {known}", ExitCode.USAGE)


# A row for each time, a column for each device and quantity, as spreadsheets want it.


def wide_table(tables: Iterable[Any], schema: Any, devices: Iterable[str]) -> Any:
    """One table with ``t_utc`` and a column ``DEVICE QUANTITY`` for each that has values.

    Rows have the times at which there are samples, in ascending order; a device that has none at
    a time is null there. Events and failed polls are left out. All rows are in the memory.

    Args:
        tables: the rows, of one schema.
        schema: theirs.
        devices: in the order of the columns.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    fields = [field for field in schema if field.name not in RESERVED_COLUMNS]
    names = ["device", "t_utc", *(field.name for field in fields)]
    parts = [samples_of(table).select(names) for table in tables]
    rows = (
        pa.concat_tables(parts)
        if parts
        else pa.schema([schema.field(name) for name in names]).empty_table()
    )
    times = compute.unique(rows["t_utc"].combine_chunks())
    times = times.take(compute.sort_indices(times))
    units = units_of(schema)
    columns = [times]
    described = [pa.field("t_utc", times.type)]
    for device in devices:
        own = rows.filter(compute.equal(rows["device"], device))
        # A clock that was set can make two rows of one device and time: the later one counts.
        last = own.append_column("row", pa.array(range(own.num_rows), pa.int64()))
        last = last.group_by("t_utc").aggregate([("row", "max")])
        own = own.take(last["row_max"])
        place = compute.index_in(times, value_set=own["t_utc"].combine_chunks())
        for field in fields:
            column = own[field.name].take(place)
            if column.null_count == len(column):
                continue
            unit = unit_for(units, field.name, device)
            about = {"unit": unit} if unit is not None else None
            described.append(pa.field(f"{device} {field.name}", field.type, metadata=about))
            columns.append(column)
    return pa.table(columns, schema=pa.schema(described, schema.metadata))


# Samples of a recording at equal steps: one row for each device and step.

Method = Literal["mean", "min", "max", "first", "last"]


def resample(table: Any, every_s: float, method: Method) -> Any:
    """One row for each device and step of ``every_s`` seconds in which it has samples.

    Steps lie at whole multiples of ``every_s`` since 1970 UTC, so recordings of one moment have the
    same steps; ``t_utc`` is the beginning of the step. Numbers are taken by ``method`` over the
    step, everything else is that of its last sample. Events and failed polls are left out.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    table = samples_of(table)
    step = round(every_s * 1e9)
    moments = table["t_utc"].cast(pa.int64())
    number = compute.divide(moments, step)
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    decoded = pa.table(dict(zip(table.column_names, plain, strict=True)))
    work = decoded.append_column("__step", number)
    fixed = set(LEADING_COLUMNS)
    aggregations = [
        (
            column.name,
            method if column.name not in fixed and is_number(column.type) else "last",
        )
        for column in decoded.schema
        if column.name != "device"
    ]
    grouped = work.group_by(["device", "__step"], use_threads=False).aggregate(aggregations)
    grouped = grouped.sort_by([("__step", "ascending"), ("device", "ascending")])
    begins = compute.multiply(grouped["__step"], step).cast(pa.timestamp("ns", "UTC"))
    columns = {}
    for column in table.schema:
        if column.name == "device":
            values = grouped["device"]
        elif column.name == "t_utc":
            values = begins
        else:
            aggregation = next(kind for name, kind in aggregations if name == column.name)
            values = grouped[f"{column.name}_{aggregation}"]
        columns[column.name] = values.cast(
            column.type if column.name in TIME_COLUMNS else values.type
        )
    fields = [
        pa.field(column.name, columns[column.name].type, metadata=column.metadata)
        for column in table.schema
    ]
    return pa.table(
        list(columns.values()), schema=pa.schema(fields, metadata=table.schema.metadata)
    )


class Resampler:
    """:func:`resample` for tables that come one after the other.

    A step may begin in one table and end in a later one: the rows of each device's last step wait
    for those that follow.
    """

    def __init__(self, every_s: float, method: Method) -> None:
        self._every_s = every_s
        self._method: Method = method
        self._waiting: Any = None

    def of(self, table: Any) -> Iterator[Any]:
        """Tables of the steps that are complete."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        table = samples_of(table).cast(plain_schema(table.schema))
        if self._waiting is not None:
            if self._waiting.schema.equals(table.schema, check_metadata=True):
                table = pa.concat_tables([self._waiting, table])
                self._waiting = None
            else:
                yield from self.rest()
        step = round(self._every_s * 1e9)
        numbers = compute.divide(table["t_utc"].cast(pa.int64()), step)
        steps = pa.table({"device": table["device"], "step": numbers})
        lasts = steps.group_by("device").aggregate([("step", "max")])
        place = compute.index_in(table["device"], value_set=lasts["device"].combine_chunks())
        is_last = compute.equal(numbers, lasts["step_max"].take(place))
        self._waiting = table.filter(is_last)
        yield resample(table.filter(compute.invert(is_last)), self._every_s, self._method)

    def rest(self) -> Iterator[Any]:
        """The last steps."""
        if self._waiting is not None:
            yield resample(self._waiting, self._every_s, self._method)
            self._waiting = None
