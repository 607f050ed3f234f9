"""Recordings as the commands read them: errors are those of the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, harmless, one_line
from penstock.record import check_seals
from penstock.record.arrow import pyarrow_module, units_of
from penstock.record.damage import ShorterFormat
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.postgres_server import PostgresServer, is_postgres
from penstock.record.stored_parts import StoredPart, files_at, lacking_column, was_cut_off
from penstock.record.view import StoredRecording, open_recording

_MOST_WARNINGS = 10


def name_of(target: str | os.PathLike[str], table: str = "samples") -> str:
    """What the user sees of a recording: its path, or its server without the password."""
    if is_postgres(os.fspath(target)):
        return f"{PostgresServer(os.fspath(target), table, connect_timeout=0)}, table {table}"
    return os.fspath(target)


def read_parts(
    target: str | os.PathLike[str],
    table: str = "samples",
    *,
    needs: Sequence[str] = (),
    tell: Callable[[StoredRecording], None] | None = None,
    pieces: bool = False,
    columns: Sequence[str] | Callable[[Any], Sequence[str]] | None = None,
    rows_needed: bool = False,
) -> Iterator[StoredPart]:
    """Yield the parts of a recording: of a file, a folder or a ``postgresql://`` URI.

    What cannot be read is left out, and reported at the end.

    Args:
        target: the recording.
        table: that of SQLite and PostgreSQL.
        needs: the columns that the command works with, each of the type that it always has. A
            part without one is left out and reported.
        tell: gets the recording with its damages; by default they go to standard error.
        pieces: yield long parts in pieces.
        columns: with ``pieces``, the columns that are needed, or what chooses them from a schema.
        rows_needed: a damaged recording of which not one row can be read is an error.

    Raises:
        CommandError: there is none, nothing of it can be read, or pyarrow or psycopg is missing.
    """
    name = name_of(target, table)
    found = False
    rows = 0
    unfit: list[str] = []
    try:
        recording = open_recording(target, table=table, strict=False)
        for part in recording.pieces(columns) if pieces else recording.parts():
            if lacking := lacking_column(part, needs):
                unfit.append(f"{part.path} has no column {lacking} of a recording")
                continue
            found = True
            rows += len(part.table)
            yield part
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except OSError as error:
        raise CommandError(
            f"{name} cannot be read: {error.strerror or one_line(error)}; check the path and its "
            "permissions",
            ExitCode.OUTPUT,
        ) from error
    left_out = [each for each in recording.damages if not isinstance(each, ShorterFormat)]
    if (not found and (unfit or left_out)) or (rows_needed and not rows and left_out):
        reason = unfit[0] if unfit else str(left_out[0])
        raise CommandError(
            f"nothing of {name} can be read: {reason}. {_advice(target)}", ExitCode.OUTPUT
        )
    if not found and (missing := _missing_part(target)):
        raise CommandError(
            f"nothing of {name} can be read: {missing}. Restore its parts from a copy, or read "
            "another format of the same run",
            ExitCode.OUTPUT,
        )
    if not found:
        raise CommandError(
            f"{name} has no recording {table} yet; check the path and --table", ExitCode.OUTPUT
        )
    for text in unfit:
        warn(f"{text}; it is left out")
    (tell or warn_of_damages)(recording)


def warn_of_damages(recording: StoredRecording) -> None:
    """Print on standard error what was left out of a recording, the first places one by one."""
    for damage in recording.damages[:_MOST_WARNINGS]:
        warn(f"{damage}" if isinstance(damage, ShorterFormat) else f"{damage}; left out")
    if (more := recording.damage_count - _MOST_WARNINGS) > 0:
        warn(f"{more} more places of {recording.path} cannot be read; verify lists them")


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"penstock: warning: {harmless(text)}", file=sys.stderr)


def _missing_part(target: str | os.PathLike[str]) -> str:
    """What the list of parts of a folder tells of the first one, of a folder where none is."""
    if is_postgres(os.fspath(target)) or not (Path(target) / ".penstock").is_dir():
        return ""
    problems = (problem for seal in check_seals(Path(target)) for problem in seal.problems)
    return next(problems, "")


def _advice(target: str | os.PathLike[str]) -> str:
    if was_cut_off(Path(target)):
        return f"Its recording was cut off: run penstock recover {target} first"
    return "Read a copy of it, or another format of the same run"


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


def refuse_own_file(target: str, out: Path) -> None:
    """Refuse to replace a file of the recording that is read; CommandError."""
    path = Path(target)
    if is_postgres(target) or not (out.exists() and path.exists()):
        return
    try:
        is_own = any(file.samefile(out) for file in files_at(path))
    except OSError:
        return  # reading it tells why
    if is_own:
        raise CommandError(
            f"{out} is a file of the recording itself, which would be lost; choose another name",
            ExitCode.USAGE,
        )
