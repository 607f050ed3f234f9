"""Recordings as the commands read them: errors are those of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.record.arrow import pyarrow_module, units_of
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.postgres_parts import is_postgres
from penstock.record.postgres_server import PostgresServer
from penstock.record.schema import LEADING_COLUMNS, RECORDER_FIELDS, TRAILING_COLUMNS
from penstock.record.stored_parts import StoredPart
from penstock.record.view import open_recording

__all__ = ["field_names", "name_of", "read_parts", "samples_of", "units_by_device"]


def name_of(target: str | os.PathLike[str], table: str = "samples") -> str:
    """What the user sees of a recording: its path, or its server without the password."""
    if is_postgres(os.fspath(target)):
        return f"{PostgresServer(os.fspath(target), table, connect_timeout=0)}, table {table}"
    return os.fspath(target)


def read_parts(target: str | os.PathLike[str], table: str = "samples") -> Iterator[StoredPart]:
    """Yield the parts of a recording: of a file, a folder or a ``postgresql://`` URI.

    ``table`` is that of SQLite and PostgreSQL.

    Raises:
        CommandError: there is none, it cannot be read, or pyarrow or psycopg is missing.
    """
    found = False
    try:
        for part in open_recording(target, table=table).parts():
            found = True
            yield part
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except (OSError, ValueError, KeyError) as error:
        # pyarrow's own errors are ValueErrors and OSErrors.
        raise CommandError(
            f"{os.fspath(target)} cannot be read: {one_line(error)}; if its recording was cut off, "
            f"run penstock recover {os.fspath(target)} first",
            ExitCode.OUTPUT,
        ) from error
    if not found:
        name = name_of(target, table)
        raise CommandError(
            f"{name} has no recording {table} yet; check the path and --table", ExitCode.OUTPUT
        )


def field_names(part: StoredPart) -> list[str]:
    """The names of the columns that a device measured, numbers only."""
    pa = pyarrow_module()
    fixed = {*LEADING_COLUMNS, *TRAILING_COLUMNS, *RECORDER_FIELDS}
    return [
        column.name
        for column in part.table.schema
        if column.name not in fixed
        and (pa.types.is_floating(column.type) or pa.types.is_integer(column.type))
    ]


def units_by_device(part: StoredPart, name: str) -> dict[str, str]:
    """The unit of a field for each device that has rows in ``part`` and a unit."""
    unit = units_of(part.table.schema).get(name)
    devices = [text for text in part.table["device"].unique().to_pylist() if text]
    if unit is None or isinstance(unit, str):
        return dict.fromkeys(devices, unit) if unit is not None else {}
    return {device: unit[device] for device in devices if device in unit}


def samples_of(table: Any) -> Any:
    """The rows that are samples: neither events nor failed polls."""
    compute = pyarrow_module("pyarrow.compute")
    for name in ("event", "error"):
        if name in table.column_names:
            table = table.filter(compute.is_null(table[name]))
    return table
