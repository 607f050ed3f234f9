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
from typing import Any

from penstock._durable_files import put_file
from penstock.cli._errors import (
    CommandError,
    ExitCode,
    already_exists,
    explain_os_error,
    one_line,
)
from penstock.cli._recordings.conversion import conversion, convert
from penstock.cli._recordings.reading import name_of, read_parts
from penstock.cli._recordings.resampling import Resampler
from penstock.cli._recordings.selection import Selection
from penstock.cli._recordings.united_parts import UnitedParts
from penstock.cli._recordings.wide_table import wide_table
from penstock.record.arrow import name_with_unit, pyarrow_module, units_of
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.exported_tables import (
    TABLE_WRITERS,
    TableWriter,
    describe_table,
    described_in,
)
from penstock.record.postgres_uri import is_postgres
from penstock.record.run_history import RunTally

__all__ = ["run_export"]


def run_export(options: argparse.Namespace) -> int:
    """Write ``options.file`` to ``options.out`` in the format of its suffix."""
    if is_postgres(options.out):
        raise CommandError(
            "an export is written to a file, not to a PostgreSQL server; name a file such as "
            "run.parquet",
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
    resampler = Resampler(every, options.method) if every is not None else None
    for part in read_parts(
        options.file,
        options.table,
        needs=("device", "t_utc"),
        pieces=True,
        columns=selection.columns,
    ):
        tally.add(part)
        part.table = selection.of(part.table)
        convert(part, wanted, options, notes)
        if resampler is None:
            yield part.table
        else:
            yield from resampler.of(part.table)
    if resampler is not None:
        yield from resampler.rest()
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
        table = wide_table(tables, schema, parts.devices)
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
