"""``penstock query``: SQL over a recording."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeVar

from penstock._durable_files import put_file
from penstock.cli._errors import CommandError, ExitCode, explain_os_error, harmless, one_line
from penstock.cli._interrupts import Interrupts
from penstock.record.addresses import scheme_of
from penstock.record.archives.stores import ArchiveError
from penstock.record.arrow import is_number, iso_times, pyarrow_module
from penstock.record.damage import DamageList
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.postgres_server import is_postgres
from penstock.record.queries import QueryError, QuerySession, parquet_files

INTERRUPTION_INTERVAL = 0.05  # Seconds

_T = TypeVar("_T")


def run_query(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Run ``options.sql`` over ``options.path`` and write the rows."""
    try:
        return _run(options)
    except Exception:
        # A call of DuckDB in which the signal arrives makes an error of its own of it.
        interrupts.raise_if_received()
        raise


def _run(options: argparse.Namespace) -> int:
    name = _format(options)
    sql = sys.stdin.read() if options.sql == "-" else options.sql
    if not sql.strip(" \t\r\n;"):
        raise CommandError(
            "the SQL is empty; write one such as 'SELECT count(*) FROM samples'", ExitCode.USAGE
        )
    try:
        with QuerySession(options.memory) as session, _Worker(session) as worker:
            _attach(session, options, worker)
            reader = worker.call(partial(session.ask, sql))
            _write(reader.schema, _batches(reader, worker), options.out, name)
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except QueryError as error:
        raise CommandError(one_line(error), ExitCode.USAGE) from error
    except ArchiveError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except RecordError as error:
        raise CommandError(
            f"{one_line(error)}; penstock verify says what is damaged, and penstock export copies "
            "the rest",
            ExitCode.OUTPUT,
        ) from error
    return ExitCode.OK


class _Worker:
    """A thread for DuckDB's calls: none of them would notice Ctrl-C in the main thread."""

    def __init__(self, session: QuerySession) -> None:
        self._session = session
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="query")
        self._call: Future[Any] | None = None

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, Exception) and self._call is not None:
            self._call.cancel()
            # DuckDB forgets an interruption that comes before the query has begun.
            while not self._call.done():
                self._session.interrupt()
                wait([self._call], INTERRUPTION_INTERVAL)
        self._threads.shutdown()

    def call(self, do: Callable[[], _T]) -> _T:
        """Do it in the thread, and wait; a signal ends the wait."""
        try:
            self._call = call = self._threads.submit(do)
            return call.result()
        except Exception as error:
            explained = self._session.explained(error)
            if explained is error:
                raise
            raise explained from error


def _attach(session: QuerySession, options: argparse.Namespace, worker: _Worker) -> None:
    if scheme_of(options.path) == "s3":
        from penstock.record.queries import s3_datasets

        try:
            datasets = worker.call(partial(s3_datasets, options.path))
        except ValueError as error:
            raise CommandError(one_line(error), ExitCode.USAGE) from error
        worker.call(partial(session.attach_datasets, datasets))
        return
    if not is_postgres(options.path):
        path = Path(options.path)
        damages = DamageList(strict=False)
        try:
            files = parquet_files(path, damages) if path.exists() else None
        except OSError as error:
            raise CommandError(
                f"{path} cannot be read: {error.strerror or one_line(error)}; check the path and "
                "its permissions",
                ExitCode.OUTPUT,
            ) from error
        if files is not None:
            if damages.listed:
                _warn(damages)
            worker.call(partial(session.attach_files, files))
            return
    # Here, because the readers of all formats take longer to import than a small query.
    from penstock.cli._stored.reading import read_parts

    # In this thread, because reading prints warnings; a signal ends it between two pieces.
    parts = read_parts(options.path, options.table, pieces=True, rows_needed=True)
    session.attach_tables(part.table for part in parts)


def _warn(damages: DamageList) -> None:
    from penstock.cli._stored.reading import warn

    for damage in damages.listed:
        warn(f"{damage}; left out")


def _batches(reader: Any, worker: _Worker) -> Iterator[Any]:
    while (batch := worker.call(partial(next, reader, None))) is not None:
        yield batch


def _format(options: argparse.Namespace) -> str:
    """The format of the rows, after a check of everything about the output."""
    if options.out is None:
        if options.overwrite:
            raise CommandError("--overwrite needs a file to replace; add --out", ExitCode.USAGE)
        if options.format == "parquet" and sys.stdout.isatty():
            raise CommandError(
                "Parquet cannot be shown in a terminal; add --out FILE, or choose another --format",
                ExitCode.USAGE,
            )
        return str(options.format or "table")
    suffix = Path(options.out).suffix[1:]
    name = options.format or (suffix if suffix in WRITERS else None)
    if name is None:
        raise CommandError(
            f"{options.out} has no format that can be written; add --format, or a suffix of "
            f"{', '.join('.' + each for each in list(WRITERS)[1:])}",
            ExitCode.USAGE,
        )
    if os.path.lexists(options.out) and not options.overwrite:
        raise CommandError(
            f"{options.out} already exists; add --overwrite to replace it or choose another name",
            ExitCode.OUTPUT,
        )
    if options.overwrite:
        # Here, because the readers of all formats take longer to import than a small query.
        from penstock.cli._stored.reading import refuse_own_file

        refuse_own_file(options.path, Path(options.out))
    return str(name)


def _write(schema: Any, batches: Iterator[Any], out: str | None, name: str) -> None:
    write = WRITERS[name]
    if out is None:
        sys.stdout.flush()
        write(schema, batches, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        os.close(put_file(out, partial(_fill, write, schema, batches), overwrite=True))
    except OSError as error:
        raise explain_os_error(error, out, kind="file") from error


def _fill(
    write: Callable[[Any, Iterator[Any], BinaryIO], None],
    schema: Any,
    batches: Iterator[Any],
    descriptor: int,
) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        write(schema, batches, file)


# The rows of a query as a table for people, CSV, JSON, JSON Lines and Parquet.

_MOST_ROWS = 200
_WIDEST = 60


def _write_table(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    """The first rows, aligned, numbers to the right; then how many there are."""
    rows: list[list[str]] = []
    count = 0
    for batch in batches:
        count += len(batch)
        if len(rows) < _MOST_ROWS:
            shown = batch.slice(0, _MOST_ROWS - len(rows))
            rows += [[_cell(value) for value in row] for row in _values(shown)]
    names = [_cell(name) for name in schema.names]
    right = [_is_number(field.type) for field in schema]
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
    for line in (names, ["-" * width for width in widths], *rows):
        cells = zip(line, widths, right, strict=True)
        file.write(("  ".join(_padded(*cell) for cell in cells).rstrip() + "\n").encode())
    if count > len(rows):
        file.write(f"... {count - len(rows)} more rows; --format csv prints all of them\n".encode())
    file.write(f"({count} row{'s' * (count != 1)})\n".encode())


def _write_csv(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    r"""RFC 4180 with ``\n``; null is an empty field, an empty text ``""``."""
    csv = pyarrow_module("pyarrow.csv")
    names = [_quoted(name) for name in schema.names]
    file.write((",".join(names) + "\n").encode())
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        csv.write_csv(_as_texts(batch), file, options)


def _write_json(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    """One array of objects, one a line."""
    between = b"[\n"
    for line in _objects(schema, batches):
        file.write(between + line)
        between = b",\n"
    file.write(b"[]\n" if between == b"[\n" else b"\n]\n")


def _write_lines(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    for line in _objects(schema, batches):
        file.write(line + b"\n")


def _write_parquet(schema: Any, batches: Iterator[Any], file: BinaryIO) -> None:
    parquet = pyarrow_module("pyarrow.parquet")
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


WRITERS: Mapping[str, Callable[[Any, Iterator[Any], BinaryIO], None]] = MappingProxyType(
    {
        "table": _write_table,
        "csv": _write_csv,
        "json": _write_json,
        "jsonl": _write_lines,
        "parquet": _write_parquet,
    }
)
"""By format: writes the batches of a schema to an open binary file."""


def _objects(schema: Any, batches: Iterator[Any]) -> Iterator[bytes]:
    names = schema.names
    for batch in batches:
        for row in _values(batch):
            # Not a dictionary: a query may give two columns one name, and JSON allows that.
            parts = [
                f"{_json(name)}: {_json(value)}" for name, value in zip(names, row, strict=True)
            ]
            yield f"{{{', '.join(parts)}}}".encode()


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """``value`` with null for what JSON has no number for, as in the recorder's own JSON Lines."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _values(batch: Any) -> Iterator[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in _timeless(batch).columns]
    return zip(*columns, strict=True)


def _timeless(batch: Any) -> Any:
    """``batch`` with its time stamps as texts, which keep nanoseconds."""
    pa = pyarrow_module()
    columns = [
        iso_times(column) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _as_texts(batch: Any) -> Any:
    """``batch`` with texts for what CSV has no form of."""
    pa = pyarrow_module()
    columns = []
    for column in _timeless(batch).columns:
        if pa.types.is_nested(column.type):
            texts = [None if each is None else _json(each) for each in column.to_pylist()]
            column = pa.array(texts, pa.string())
        elif pa.types.is_binary(column.type) or pa.types.is_interval(column.type):
            texts = [None if each is None else str(each) for each in column.to_pylist()]
            column = pa.array(texts, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = harmless(value if isinstance(value, str) else str(value))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, width: int, right: bool) -> str:
    blank = " " * (width - _width(text))
    return blank + text if right else text + blank


def _is_number(kind: Any) -> bool:
    return is_number(kind) or bool(pyarrow_module().types.is_decimal(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set('",\r\n') else name
