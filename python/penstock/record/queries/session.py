"""A DuckDB session over one recording, which can read that recording and nothing else."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.record.archives.stores import ArchiveError
from penstock.record.arrow import pyarrow_module
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.queries.parquet_files import ParquetFiles

__all__ = ["QueryError", "QuerySession", "duckdb_module"]

ALL_ROWS = "recording"
_SAMPLES = "samples"
_EVENTS = "events"
_TEXT_PARTITIONS = ("device", "run")
_ROWS_A_BATCH = 65_536
# How a status of Arrow says that a file system has failed, also within an error of DuckDB.
_ARROW_FAILED = "IOError: "


class QueryError(RecordError):
    """The SQL is wrong, or asks for what a query may not do."""


def duckdb_module() -> Any:
    """Import DuckDB; SinkDependencyError with the remedy without it."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise SinkDependencyError(
            "queries need the package duckdb: install it with  pip install 'penstock[query]'"
        ) from error


class QuerySession:
    """The tables ``recording``, ``samples`` and ``events``, and SQL over them.

    ``recording`` has every row, ``events`` the recorder's own, ``samples`` the answered polls. The
    SQL can neither read nor write another file, load an extension or change a setting: it may
    come from somebody else. Times are UTC.

    Not for several threads at once, except :meth:`interrupt`.

    Args:
        memory: the most memory that DuckDB's buffers use, such as ``2GB``; the rest goes to a
            temporary folder. By default DuckDB's own choice, 80 % of the machine's.
    """

    def __init__(self, memory: str | None = None) -> None:
        self._duckdb = duckdb_module()
        pyarrow_module()
        self._has_datasets = False
        self._database = self._duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                # Names of Python variables of this program are no tables.
                "python_enable_replacements": "false",
            },
        )
        self._spill = tempfile.TemporaryDirectory(prefix="penstock-query-")
        try:
            self._run("SET TimeZone = 'UTC'")
            self._run(f"SET temp_directory = {_quoted(self._spill.name)}")
            if memory is not None:
                self._limit(memory)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session and remove its temporary files."""
        self._database.close()
        self._spill.cleanup()

    def interrupt(self) -> None:
        """End a running query, from any thread."""
        self._database.interrupt()

    def attach_files(self, files: ParquetFiles) -> None:
        """Let DuckDB read Parquet files by itself, when a query asks for their columns."""
        paths = [str(path.absolute()) for path in files.paths]
        listed = f"[{', '.join(map(_quoted, paths))}]"
        options = "union_by_name = true"
        if files.partitioned:
            options += ", hive_partitioning = true"
            # A device called 007 is not the number 7, and a run called 1e5 is none either.
            found = {part.partition("=")[0] for path in files.paths for part in path.parts}
            if texts := [f"'{name}': VARCHAR" for name in _TEXT_PARTITIONS if name in found]:
                options += f", hive_types = {{{', '.join(texts)}}}"
        else:
            options += ", hive_partitioning = false"
        source = f"SELECT * FROM read_parquet({listed}, {options})"
        self._run(f"CREATE VIEW {ALL_ROWS} AS {source}")
        self._lock(paths)

    def attach_datasets(self, datasets: Sequence[Any]) -> None:
        """Let DuckDB read data sets of pyarrow, when a query asks for their columns.

        A column that one does not have is null there. One that has another type in another becomes
        a float if all are numbers, else a text.
        """
        self._has_datasets = True
        names = [f"dataset_{number}" for number in range(len(datasets))]
        for name, dataset in zip(names, datasets, strict=True):
            self._database.register(name, dataset)
        source = " UNION ALL BY NAME ".join(f"SELECT * FROM {name}" for name in names)
        self._run(f"CREATE VIEW {ALL_ROWS} AS {source}")
        self._lock([])

    def attach_tables(self, tables: Iterable[Any]) -> None:
        """Copy Arrow tables into the session, one after the other.

        A column that a table does not have is null there. One that has another type in another
        table becomes a float if all are numbers, else a text.
        """
        # Here, because the readers of all formats take longer to import than a small query.
        from penstock.record.stored_parts import plain_schema

        known: dict[str, str] = {}
        for table in tables:
            plain = table.cast(plain_schema(table.schema))
            self._database.register("piece", plain)
            try:
                kinds = {name: kind for name, kind, *_ in self._rows("DESCRIBE piece")}
                if not known:
                    self._run(f"CREATE TABLE {ALL_ROWS} AS SELECT * FROM piece")
                    known = kinds
                    continue
                for name, kind in kinds.items():
                    self._widen(known, name, kind)
                self._run(f"INSERT INTO {ALL_ROWS} BY NAME SELECT * FROM piece")
            finally:
                self._database.unregister("piece")
        self._lock([])

    def columns(self) -> list[str]:
        """The names of the columns of ``recording``."""
        return [name for name, *_ in self._rows(f"DESCRIBE {ALL_ROWS}")]

    def ask(self, sql: str) -> Any:
        """Run one SELECT and return a ``pyarrow.RecordBatchReader`` of its rows.

        Rows are computed as they are read, so a result may be larger than the memory.

        Raises:
            QueryError: if the SQL is wrong, is not one statement, or gives no rows.
        """
        try:
            statements = self._database.extract_statements(sql)
            if len(statements) != 1:
                raise QueryError(
                    f"the SQL has {len(statements)} statements; write exactly one, without ;"
                )
            kind = statements[0].type.name
            if kind not in ("SELECT", "EXPLAIN"):
                raise QueryError(
                    f"the SQL is a statement {kind}, and a query only reads; write a SELECT"
                )
            return self._database.sql(sql).to_arrow_reader(_ROWS_A_BATCH)
        except self._duckdb.Error as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> Exception:
        """The error of DuckDB as one of the project's; any other one as it is."""
        if not isinstance(error, self._duckdb.Error):
            return error
        # Below the sentence is a picture of the place, which is nothing for one line.
        sentence, _, place = str(error).partition("\n\nLINE ")
        sentence = " ".join(sentence.split()).rstrip(".")
        _, failed, reason = sentence.partition(_ARROW_FAILED)
        if failed and self._has_datasets:
            return ArchiveError(f"the archive cannot be read: {reason}")
        if isinstance(error, self._duckdb.OutOfMemoryException):
            return QueryError(
                f"the query needs more memory than it may have: {sentence}; raise --memory, or "
                "ask for less at once"
            )
        if isinstance(error, self._duckdb.PermissionException):
            return QueryError(f"a query reads the recording and nothing else: {sentence}")
        if isinstance(error, (self._duckdb.IOException, self._duckdb.InternalException)):
            return RecordError(f"the recording cannot be read: {sentence}")
        where = f" (line {place.partition(':')[0]})" if place else ""
        return QueryError(f"the SQL cannot be run: {sentence}{where}")

    def _limit(self, memory: str) -> None:
        try:
            self._database.execute(f"SET memory_limit = {_quoted(memory)}")
        except self._duckdb.Error as error:
            raise QueryError(
                f"{memory!r} is no amount of memory; write one such as 500MB or 2GB"
            ) from error

    def _widen(self, known: dict[str, str], name: str, kind: str) -> None:
        column = _name(name)
        before = known.get(name)
        if before is None:
            self._run(f"ALTER TABLE {ALL_ROWS} ADD COLUMN {column} {kind}")
            known[name] = kind
        elif before != kind:
            numbers = {before, kind} <= {"BIGINT", "DOUBLE"}
            common = "DOUBLE" if numbers else "VARCHAR"
            if before != common:
                self._run(f"ALTER TABLE {ALL_ROWS} ALTER COLUMN {column} TYPE {common}")
                known[name] = common

    def _lock(self, paths: Sequence[str]) -> None:
        """Add the views, and shut everything but the files of the recording."""
        names = self.columns()
        conditions = {
            _SAMPLES: [f"{name} IS NULL" for name in ("event", "error") if name in names],
            _EVENTS: ["event IS NOT NULL" if "event" in names else "false"],
        }
        for view, parts in conditions.items():
            where = f" WHERE {' AND '.join(parts)}" if parts else ""
            self._run(f"CREATE VIEW {view} AS SELECT * FROM {ALL_ROWS}{where}")
        allowed = ", ".join(map(_quoted, paths))
        self._run(f"SET allowed_paths = [{allowed}]")
        self._run("SET enable_external_access = false")
        self._run("SET lock_configuration = true")

    def _run(self, sql: str) -> None:
        try:
            self._database.execute(sql)
        except self._duckdb.Error as error:
            sentence = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise RecordError(f"the recording cannot be read: {sentence}") from error

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._database.execute(sql).fetchall()
        return rows


def _quoted(text: str | Path) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
