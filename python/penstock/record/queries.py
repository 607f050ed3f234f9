"""SQL over a recording: a DuckDB session, and the Parquet files that it reads by itself."""

from __future__ import annotations

import importlib
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from penstock.record._files.files import numbered_parts
from penstock.record._parts.parts_folder import PartsFolder, parts_path
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record.archives.manifest import ArchivedFile, archive_files, is_archive, manifests
from penstock.record.archives.stores import ArchiveError, S3Store
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.stored_parts import next_file, plain_schema

__all__ = ["QueryError", "QuerySession", "parquet_files", "s3_datasets"]

ALL_ROWS = "recording"
_SAMPLES = "samples"
_EVENTS = "events"
_TEXT_PARTITIONS = ("device", "run")
_ROWS_A_BATCH = 65_536
# How a status of Arrow says that a file system has failed, even inside an error of DuckDB.
_ARROW_FAILED = "IOError: "
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?", re.IGNORECASE)


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

    ``recording`` has every row, ``events`` the rows of events, ``samples`` the answered polls.
    The SQL may be untrusted: it can neither read nor write another file, load an extension or
    change a setting. Times are UTC.

    Use a session in one thread at a time; only :meth:`interrupt` may be called in another one.

    Args:
        memory: the largest memory for DuckDB's buffers, such as ``2GB``; data beyond it go to a
            temporary folder. By default DuckDB uses up to 80 % of the machine's memory.
    """

    def __init__(self, memory: str | None = None) -> None:
        self._duckdb = duckdb_module()
        pyarrow_module()
        self._has_datasets = False
        self._files: Sequence[Path] = ()
        self._database = self._duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                # Names of Python variables of this program are not tables.
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
        self._files = files.paths
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
            if kind == "EXPLAIN":
                kind = self._explained_kind(sql)
            if kind != "SELECT":
                raise QueryError(
                    f"the SQL statement is {kind}, but a query only reads; write a SELECT"
                )
            return self._database.sql(sql).to_arrow_reader(_ROWS_A_BATCH)
        except self._duckdb.Error as error:
            raise self.explained(error) from error

    def _explained_kind(self, sql: str) -> str:
        """What kind of statement follows EXPLAIN, which with ANALYZE is run: also one that writes.

        DuckDB may write the files that it may read, and those of the recording are.
        """
        found = _EXPLAIN.match(sql)
        inside = [] if found is None else self._database.extract_statements(sql[found.end() :])
        if len(inside) != 1:
            raise QueryError("write EXPLAIN or EXPLAIN ANALYZE, and then a SELECT")
        return str(inside[0].type.name)

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
                "query less at once"
            )
        if isinstance(error, self._duckdb.PermissionException):
            return QueryError(f"a query reads the recording and nothing else: {sentence}")
        if isinstance(error, (self._duckdb.IOException, self._duckdb.InternalException)):
            return RecordError(f"the recording cannot be read: {sentence}")
        compiled = (
            self._duckdb.ParserException,
            self._duckdb.SyntaxException,
            self._duckdb.BinderException,
            self._duckdb.CatalogException,
        )
        # DuckDB has no class of errors for what the bytes of a file make it say.
        if self._files and not isinstance(error, compiled) and not _are_sound(self._files):
            return RecordError(f"the recording cannot be read: {sentence}")
        where = f" (line {place.partition(':')[0]})" if place else ""
        return QueryError(f"the SQL cannot be run: {sentence}{where}")

    def _limit(self, memory: str) -> None:
        try:
            self._database.execute(f"SET memory_limit = {_quoted(memory)}")
        except self._duckdb.Error as error:
            raise QueryError(
                f"{memory!r} is not an amount of memory; write one such as 500MB or 2GB"
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


def _are_sound(paths: Iterable[Path]) -> bool:
    """Whether all of some Parquet files can be read, by another reader than DuckDB."""
    try:
        for path in paths:
            for _ in ParquetFormat("zstd").pieces(path):
                pass
    except UNREADABLE:
        return False
    return True


def _quoted(text: str | Path) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# Parquet files that DuckDB can read by itself: of a recording, and of an archive in a bucket.

_SUFFIX = ".parquet"
_MAGIC = b"PAR1"
_SMALLEST = 12  # bytes: the magic number at both ends, and the length of the footer


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """Complete Parquet files that hold all rows of a recording.

    Attributes:
        paths: the files, in the order of recording.
        partitioned: names of folders such as ``device=fuel`` hold columns.
    """

    paths: list[Path]
    partitioned: bool


def parquet_files(path: Path, damages: DamageList) -> ParquetFiles | None:
    """The files of the recording or archive at ``path``; None if rows are elsewhere too.

    Rows are elsewhere while a journal has them: during a recording, or after a kill. A folder that
    is not a recording, but has Parquet files at any depth, is an archive. Files whose names or
    folders begin with a dot or an underscore are somebody's unfinished work. They are left out.

    Args:
        path: the recording.
        damages: notes files that are not complete Parquet files, and are left out.
    """
    if is_archive(path):
        return ParquetFiles(_complete([Path(each) for each in archive_files(path)], damages), True)
    if path.is_dir() and not _is_parts_folder(path):
        # Here, because the readers of all formats take longer to import than a small query.
        from penstock.record.stored_parts import recordings_at

        recordings = recordings_at(path)
        if not recordings:
            return _archive(path, damages)
        kinds = {_SUFFIX if each.suffix == _SUFFIX else "" for each in recordings}
        if kinds != {_SUFFIX}:
            return None  # several formats of one run: which one has most rows is known there
        found = [_of_recording(each, damages) for each in recordings]
    else:
        found = [_of_recording(path, damages)]
    files: list[Path] = []
    partitioned = False
    for each in found:
        if each is None:
            return None
        files += each.paths
        partitioned |= each.partitioned
    return ParquetFiles(files, partitioned) if files else None


def _of_recording(path: Path, damages: DamageList) -> ParquetFiles | None:
    if _is_parts_folder(path):
        folder = PartsFolder(path, _SUFFIX)
        if any(journal.exists() for _, journal in folder.journals()):
            return None
        parts = [part for _, part in folder.parts()]
        inside = any("=" in name for part in parts for name in part.relative_to(path).parts[:-1])
        return ParquetFiles(_complete(parts, damages), inside)
    if path.suffix != _SUFFIX or parts_path(path).is_dir():
        return None
    numbered = numbered_parts(path)
    files = [part for _, part in numbered]
    if not files or any(part.stat().st_size == 0 for part in files):
        return None  # reserved by a recorder
    following = next_file(path)
    gap = [number for number, _ in numbered] != [*range(1, len(numbered) + 1)]
    if gap or (following is not None and not following.exists()):
        return None  # the reader of all formats tells which file is missing
    return ParquetFiles(_complete(files, damages), False)


def _archive(folder: Path, damages: DamageList) -> ParquetFiles | None:
    files = _complete(sorted(_files_below(folder)), damages)
    below = {name for file in files for name in file.relative_to(folder).parts[:-1]}
    return ParquetFiles(files, any("=" in name for name in below)) if files else None


def _files_below(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error  # which os.walk alone takes for an empty folder

    for here, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.endswith(_SUFFIX) and not name.startswith((".", "_")):
                yield Path(here, name)


def _complete(paths: list[Path], damages: DamageList) -> list[Path]:
    """Those that begin and end as Parquet files do: one torn file would end the whole query."""
    sound = []
    for path in paths:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(len(_MAGIC))
            file.seek(max(size - len(_MAGIC), 0))
            end = file.read(len(_MAGIC))
        if size >= _SMALLEST and begin == end == _MAGIC:
            sound.append(path)
        else:
            damages.note(path, "", "it is not a complete Parquet file")
    return sound


def _is_parts_folder(path: Path) -> bool:
    return (path / ".penstock").is_dir()


# An archive in a bucket, for a query: data sets of pyarrow, which DuckDB reads a batch at a time.
#
# DuckDB has its own access to S3 in an extension that it downloads, which a query does not do. A
# data set reads the columns that a query names, and skips row groups that its conditions exclude.

_CONNECT_S = 5
_TIMEOUT_S = 60


def s3_datasets(target: str) -> list[Any]:
    """A ``pyarrow.dataset.Dataset`` for each schema of an archive, with the rows of all its runs.

    Secrets and the store's address come from the environment, as for the archiver.

    Args:
        target: ``s3://BUCKET/PREFIX``.

    Raises:
        ArchiveError: there is no archive, or it cannot be read.
        SinkDependencyError: a package is missing.
        ValueError: the URL is malformed.
    """
    dataset, fs = pyarrow_module("pyarrow.dataset"), pyarrow_module("pyarrow.fs")
    store = S3Store(target)
    by_schema: dict[str, list[ArchivedFile]] = defaultdict(list)
    for manifest in manifests(store):
        for file in manifest.files:
            by_schema[manifest.schemas[file.schema - 1]].append(file)
    if not by_schema:
        raise ArchiveError(
            f"{store} is not an archive with rows; name the bucket and the prefix that penstock "
            "archive was given"
        )
    endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL", ""))
    files = fs.S3FileSystem(
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        scheme=endpoint.scheme or None,
        endpoint_override=endpoint.netloc or None,
        connect_timeout=_CONNECT_S,
        request_timeout=_TIMEOUT_S,
    )
    base = str(store).removeprefix("s3://")
    found = []
    for group in by_schema.values():
        paths = [f"{base}/{file.name}" for file in group]
        try:
            with files.open_input_file(paths[0]) as first:
                inside = pyarrow_module("pyarrow.parquet").read_schema(first)
        except (OSError, pyarrow_module().ArrowException) as error:
            reason = " ".join(str(error).split())[:300]
            raise ArchiveError(f"s3://{paths[0]} cannot be read: {reason}") from error
        folders = _folders(group, inside.names)
        schema = plain_schema(inside)
        found.append(
            dataset.dataset(
                paths,
                schema=pyarrow_module().schema([*schema, *folders]),
                format="parquet",
                filesystem=files,
                partitioning=dataset.partitioning(folders, flavor="hive"),
                partition_base_dir=base,
            )
        )
    return found


def _folders(files: list[ArchivedFile], inside: list[str]) -> Any:
    """The columns in the names of folders, but for those that the files have themselves."""
    pa = pyarrow_module()
    days = pa.string() if any(file.day == "None" for file in files) else pa.date32()
    columns = {"run": pa.string(), "schema": pa.int64(), "day": days}
    return pa.schema([(name, kind) for name, kind in columns.items() if name not in inside])
