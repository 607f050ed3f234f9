"""Recording into SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock._durable_files import sync_folder
from penstock._renamed import renamed
from penstock._torn_end import Cut
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import BoolColumn, NumberColumn, TextColumn
from penstock.record._columns.row_text import describe_columns
from penstock.record._files.files import check_not_removed, explain, explained
from penstock.record._files.sqlite_log import keep_torn_log, release_lock, take_lock
from penstock.record._seals.digests import SigningKey
from penstock.record._seals.row_seals import RowSeals, batch_of_rows, begin_of_table
from penstock.record._seals.seal import end_by
from penstock.record.errors import (
    RecoveryError,
    SinkExistsError,
    SinkSchemaError,
    SinkWriteError,
)
from penstock.record.schema import TIME_COLUMNS, RecordSchema
from penstock.record.sink import LossWindow, PathSink

_INTEGER = (*TIME_COLUMNS, "t_mono_ns")
_KINDS = {"float": "REAL", "int": "INTEGER", "bool": "INTEGER", "timestamp": "INTEGER"}
# Beyond 32 rows, a statement gets no faster.
_ROWS_OF_A_STATEMENT = 32
_ROWS_AT_A_TIME = 4096
_LISTED = """
CREATE TABLE IF NOT EXISTS penstock_parts (
    part INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    columns TEXT NOT NULL,
    recording TEXT NOT NULL,
    facts TEXT NOT NULL DEFAULT '{}'
);
"""


class SqliteSink(PathSink):
    """Writes the tables ``samples`` and ``penstock_parts`` of an SQLite database.

    Time stamps are integers, nanoseconds since 1970 UTC; the view ``samples_iso`` has them as ISO
    8601 texts with microseconds. A row of ``penstock_parts`` has the columns with their units and
    the metadata. A batch with a new field, another unit or other metadata begins a new table,
    ``samples_2``.

    The database is in WAL mode and can be read while it grows. One transaction is open at a time;
    the sink commits it and syncs the log within the loss window. SQLite rolls back a transaction
    that SIGKILL has cut off when the database is next opened. A lock on ``run.sqlite-lock`` keeps
    other recorders away while the sink is open. Needs no package but Python.

    Args:
        path: the database file.
        table: the name of the table.
        overwrite: replace an existing file when the first batch comes.
        append: continue an existing database, which may have other tables. Without either, ``open``
            raises SinkExistsError.
        force: with ``append``, continue a database whose log is damaged before complete
            transactions, which are lost. The log is kept beside the database in any case.
        busy_timeout: seconds to wait for a reader's lock before a write fails.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.
        seals: write the table ``penstock_seals``, with which ``penstock verify`` checks that no row
            has changed since.
        sign: the key that signs the seals.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "samples",
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        busy_timeout: float = 5.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        super().__init__(
            SqliteFile(
                Path(path),
                table=table,
                overwrite=overwrite,
                append=append,
                force=force,
                busy_timeout=busy_timeout,
                seals=seals,
                sign=sign,
            ),
            LossWindow(loss_interval, loss_rows),
        )


class SqliteFile:
    """The synchronous half of :class:`SqliteSink`."""

    def __init__(
        self,
        path: Path,
        *,
        table: str,
        overwrite: bool,
        append: bool,
        force: bool,
        busy_timeout: float,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        if sign is not None and not seals:
            raise ValueError("without seals nothing is signed: pass seals=True with sign")
        if overwrite and append:
            raise ValueError("overwrite and append exclude each other: pass one of them")
        if not table or table.startswith("sqlite_") or "\0" in table:
            raise ValueError(f"a table cannot be named {table!r}: choose another name")
        self.path = path
        self.table = table
        self._overwrite = overwrite
        self._append = append
        self._force = force
        self.cuts: list[Cut] = []
        self._timeout = busy_timeout
        self._lock = -1
        self._database: sqlite3.Connection | None = None
        self._existed = False
        self._begun = False
        self._in_transaction = False
        self._node = -1
        self._schema: RecordSchema | None = None
        self._insert = ""
        self._part = 0
        self._rows = 0
        self._committed_rows = 0
        self._sealed = seals
        self._key = sign
        self._seals: RowSeals | None = None
        self._ended = "closed"

    @property
    def paths(self) -> Sequence[Path]:
        """The database."""
        return (self.path,) if self._begun or self._database is not None else ()

    def open(self) -> None:
        self._existed = os.path.lexists(self.path)
        if self._existed and not (self._overwrite or self._append):
            raise SinkExistsError(
                f"{self.path} already exists: choose another name, or pass overwrite=True to "
                f"replace it or append=True to continue it"
            )
        try:
            if not self._existed:
                # Reserved exclusively: SQLite alone would open a file that has just appeared.
                os.close(
                    os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                )
        except FileExistsError as error:
            raise SinkExistsError(
                f"{self.path} already exists: another recorder has just created it"
            ) from error
        except OSError as error:
            raise explain("create", self.path, error) from error
        try:
            self._lock = take_lock(self.path)
            if self._existed and self._append:
                with explained("continue", self.path):
                    cut = keep_torn_log(self.path, force=self._force)
                self.cuts.extend([cut] if cut is not None else [])
            self._connect()
            if self._existed and self._append:
                self._refuse_damage()
        except BaseException:
            self._disconnect()
            self._release_lock()
            if not self._existed:
                self.path.unlink(missing_ok=True)
            raise

    def write(self, batch: SampleBatch) -> None:
        with _explained(self):
            if self._schema is None:
                self._begin(batch.schema)
            elif (widened := self._schema.continued_by(batch.schema)) is not None:
                self._begin_table(widened)
            if not len(batch):
                return
            assert self._schema is not None
            self._begin_transaction()
            names = _names_in(batch, self._schema)
            try:
                self._insert_rows(names, [_values(batch.raw(name)) for name in names])
            except sqlite3.Error:
                self._keep(batch, self._rows_inserted())
                raise
            self._keep(batch, len(batch))

    def _keep(self, batch: SampleBatch, rows: int) -> None:
        """Count and seal the first rows of a batch, which are in the table."""
        assert self._schema is not None
        self._rows += rows
        if rows and self._seals is not None:
            kept = batch if rows == len(batch) else batch.slice(0, rows)
            self._seals.add(kept.fitted(self._schema))

    def _rows_inserted(self) -> int:
        """How many rows of a batch are in the table after an error.

        SQLite may have ended the failed statement alone: those before it are still in the
        transaction, and are committed with it.
        """
        database = self._connected()
        if not database.in_transaction:
            return 0
        ((last,),) = database.execute(f"SELECT coalesce(max(rowid), 0) FROM {self._table()}")
        return int(last) - self._rows

    def sync(self) -> None:
        with _explained(self):
            self._commit()

    def position(self) -> tuple[int, int]:
        """The number of the table, and its committed rows."""
        return self._part, self._committed_rows

    def rows_behind(self, position: Any) -> int | None:
        first, rows = position
        with _explained(self):
            database = self._connected()
            known = database.execute("SELECT name FROM sqlite_master WHERE name = 'penstock_parts'")
            if known.fetchone() is None or not first:
                return None
            listed = database.execute(
                "SELECT name FROM penstock_parts WHERE part >= ?", (first,)
            ).fetchall()
            counts = [
                database.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0]
                for (name,) in listed
            ]
        return int(sum(counts) - rows)

    def close(self, facts: Mapping[str, Any]) -> None:
        if self._database is None:
            self._release_lock()
            return
        try:
            with _explained(self):
                if not self._begun:
                    return
                if self._schema is not None:
                    self._begin_transaction()
                    self._connected().execute(
                        "UPDATE penstock_parts SET facts = ? WHERE part = ?",
                        (json.dumps({"rows": self._rows, **facts}), self._part),
                    )
                    if self._seals is not None:
                        self._seals.write(self._ended)
                self._commit()
                # The log goes into the database: one file remains, which any program can copy.
                self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._disconnect()
            if not self._begun and not self._existed:
                with explained("remove", self.path):
                    for suffix in ("", "-wal", "-shm"):
                        Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            self._release_lock()

    def _release_lock(self) -> None:
        if self._lock >= 0:
            release_lock(self.path, self._lock)
            self._lock = -1

    # -- the database -------------------------------------------------------------------------

    def _connected(self) -> sqlite3.Connection:
        if self._database is None:
            raise SinkWriteError(f"{self.path} is not open: open the sink first")
        return self._database

    def _connect(self) -> None:
        with _explained(self):
            # The sink's threads take turns under its lock.
            self._database = sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            if self._existed:
                self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _refuse_damage(self) -> None:
        """Rows after a damaged page of the tree may be there and be found by no reader."""
        with _explained(self):
            ((found,), *_) = self._connected().execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise RecoveryError(
                f"{self.path} is damaged, so added rows could not be read: "
                f"{' '.join(found.split())}; move it away, or record to another name. penstock "
                "export reads what is left of it"
            )

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if self._seals is not None:
            self._seals.close()
            self._seals = None
        if self._node >= 0:
            os.close(self._node)
            self._node = -1
        if database is not None:
            database.close()

    def _prepare(self) -> None:
        """Create the tables, before the first row or event."""
        if self._begun:
            return
        if self._overwrite and self._existed:
            self._disconnect()
            # What a symbolic link leads to: it is what the lock stands for.
            replaced = os.path.realpath(self.path)
            for suffix in ("", "-wal", "-shm"):
                Path(f"{replaced}{suffix}").unlink(missing_ok=True)
            self._existed = False
            self._connect()
        database = self._connected()
        database.execute("PRAGMA journal_mode = WAL")
        # Every commit syncs the log: a commit is what the loss window promises.
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_LISTED)
        if self._sealed:
            self._seals = RowSeals(database, self._key)
        sync_folder(os.fspath(self.path))
        # Closing a descriptor without O_PATH would drop SQLite's locks (fcntl(2)).
        self._node = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
        self._begun = True

    def _begin(self, schema: RecordSchema) -> None:
        self._prepare()
        if self._append:
            found = self._connected().execute(
                "SELECT part, name, columns, recording FROM penstock_parts ORDER BY part DESC"
            )
            last = found.fetchone()
            if last is not None and _same(last[2], last[3], schema):
                self._part, name = last[0], last[1]
                counted = self._connected().execute(f"SELECT count(*) FROM {_quoted(name)}")
                self._rows = self._committed_rows = counted.fetchone()[0]
                self._schema = schema
                self._resume_seals(schema, last)
                return
        self._begin_table(schema)

    def _resume_seals(self, schema: RecordSchema, part: Sequence[Any]) -> None:
        """Go on after the last seal; rows that are there unsealed are sealed as found."""
        if self._seals is None:
            return
        number, name, columns, recording = part
        database = self._connected()
        ((rows,),) = database.execute(f"SELECT coalesce(max(rowid), 0) FROM {_quoted(name)}")
        last = self._seals.last
        sealed = min(last.rows, rows) if last.part == number else 0
        begin = last.digest
        if last.part != number:
            begin = begin_of_table(self._seals.digest, last.digest, name, columns, recording)
        self._begin_transaction()
        self._seals.begin_table(number, begin, sealed)
        listed = ", ".join(map(_quoted, schema.names))
        found = database.execute(
            f"SELECT {listed} FROM {_quoted(name)} WHERE rowid > ? ORDER BY rowid", (sealed,)
        )
        try:
            while some := found.fetchmany(_ROWS_AT_A_TIME):
                self._seals.add(batch_of_rows(some, schema))
        except (TypeError, ValueError, OverflowError) as error:
            raise SinkWriteError(
                f"{self.path} cannot be continued: table {name} has a value of a different kind "
                f"({error}); begin a new recording"
            ) from error
        self._seals.write("found")

    def _begin_table(self, schema: RecordSchema) -> None:
        database = self._connected()
        most = database.getlimit(sqlite3.SQLITE_LIMIT_COLUMN)
        if len(schema.names) > most:
            raise SinkSchemaError(
                f"{self.path} cannot hold {len(schema.names)} columns: SQLite takes {most} in a "
                "table. Record fewer fields, or to Parquet or CSV"
            )
        self._begin_transaction()
        part = database.execute("SELECT coalesce(max(part), 0) + 1 FROM penstock_parts")
        self._part = part.fetchone()[0]
        name = self._free_name()
        columns = ", ".join(_declared(schema, column) for column in schema.names)
        database.execute(f"CREATE TABLE {_quoted(name)} ({columns})")
        database.execute(_iso_view(name, schema))
        described = _as_json(describe_columns(schema))
        database.execute(
            "INSERT INTO penstock_parts (part, name, columns, recording) VALUES (?, ?, ?, ?)",
            (self._part, name, described, schema.metadata),
        )
        if self._seals is not None:
            # The end of the table before, if there is one of this run.
            self._seals.write("full" if self._schema is not None else "")
            begin = begin_of_table(
                self._seals.digest, self._seals.last.digest, name, described, schema.metadata
            )
            self._seals.begin_table(self._part, begin, 0)
        self._commit()
        self._schema = schema
        self._rows = self._committed_rows = 0

    def _free_name(self) -> str:
        taken = {
            row[0] for row in self._connected().execute("SELECT lower(name) FROM sqlite_master")
        }
        number, name = 1, self.table
        while name.lower() in taken or f"{name}_iso".lower() in taken:
            number += 1
            name = f"{self.table}_{number}"
        return name

    def _insert_rows(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Insert all rows, many by one statement: a statement a row costs a third more CPU."""
        database = self._connected()
        count, width = len(columns[0]), len(names)
        values: list[Any] = [None] * (count * width)
        for number, column in enumerate(columns):
            values[number::width] = column
        into = f"INSERT INTO {self._table()} ({', '.join(map(_quoted, names))}) VALUES "
        row = f"({', '.join('?' * width)})"
        limit = database.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        step = width * max(1, min(_ROWS_OF_A_STATEMENT, limit // width))
        whole = len(values) - len(values) % step
        database.executemany(
            into + ", ".join([row] * (step // width)),
            (values[start : start + step] for start in range(0, whole, step)),
        )
        database.executemany(
            into + row,
            (values[start : start + width] for start in range(whole, len(values), width)),
        )

    def _table(self) -> str:
        row = self._connected().execute(
            "SELECT name FROM penstock_parts WHERE part = ?", (self._part,)
        )
        return _quoted(row.fetchone()[0])

    def _begin_transaction(self) -> None:
        if not self._in_transaction:
            self._connected().execute("BEGIN IMMEDIATE")
            self._in_transaction = True

    def failed_by(self, error: Exception) -> None:
        """Remember how the run has ended, for the last seal."""
        self._ended = end_by(error)

    def take_back(self) -> None:
        """Forget the rows of the transaction that an error has ended, as SQLite has."""
        database = self._database
        if self._in_transaction and database is not None and not database.in_transaction:
            self._in_transaction = False
            self._rows = self._committed_rows
            if self._seals is not None:
                self._seals.take_back()

    def _commit(self) -> None:
        if self._in_transaction:
            if self._seals is not None:
                self._seals.write()
            self._connected().execute("COMMIT")
            self._in_transaction = False
            if self._seals is not None:
                self._seals.keep()
            self._committed_rows = self._rows
            if self._node >= 0:
                check_not_removed(self._node, self.path)


class _explained:
    """Turns an error of SQLite into one sentence."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, OSError) and not isinstance(error, SinkExistsError):
            raise explain("write", self._file.path, error) from error
        # A message of SQLite that quotes a damaged name cannot be decoded.
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            self._file.take_back()
            self._file.failed_by(error)
            raise SinkWriteError(
                f"cannot write {self._file.path}: {error}; {_remedy(error)}"
            ) from error


def _remedy(error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_FULL"):
        return "free some space or record to another disk"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another program holds the database: end it or raise busy_timeout"
    if name.startswith("SQLITE_NOTADB"):
        return "the file is not an SQLite database: choose another name"
    if name.startswith("SQLITE_READONLY"):
        return "the file or its folder is read-only: choose another folder"
    return "check the disk and record elsewhere"


def _names_in(batch: SampleBatch, schema: RecordSchema) -> list[str]:
    known = set(schema.names)
    return [name for name in batch.schema.names if name in known]


def _values(column: TextColumn | NumberColumn | array[int] | array[float]) -> list[Any]:
    if isinstance(column, array):
        return column.tolist()
    if isinstance(column, NumberColumn) and 0 not in column.valid:
        return column.data.tolist()
    if isinstance(column, BoolColumn):
        return [v if ok else None for v, ok in zip(column.data, column.valid, strict=True)]
    return column.to_list()


def _declared(schema: RecordSchema, name: str) -> str:
    kind = schema.kind_of(name)
    if kind is not None:
        return f"{_quoted(name)} {_KINDS.get(kind, 'TEXT')}"
    if name in _INTEGER:
        return f"{_quoted(name)} INTEGER NOT NULL"
    if name == "latency_s":
        return f"{_quoted(name)} REAL NOT NULL"
    return f"{_quoted(name)} TEXT{' NOT NULL' if name == 'device' else ''}"


def _iso_view(table: str, schema: RecordSchema) -> str:
    stamps = {*TIME_COLUMNS, *(f.name for f in schema.fields if f.kind == "timestamp")}
    columns = []
    for name in schema.names:
        quoted = _quoted(name)
        if name in stamps:
            columns.append(
                f"strftime('%Y-%m-%dT%H:%M:%S', {quoted} / 1000000000, 'unixepoch') || "
                f"printf('.%06dZ', {quoted} / 1000 % 1000000) AS {quoted}"
            )
        else:
            columns.append(quoted)
    view = _quoted(f"{table}_iso")
    return f"CREATE VIEW {view} AS SELECT {', '.join(columns)} FROM {_quoted(table)}"


def _same(columns: str, recording: str, schema: RecordSchema) -> bool:
    """Whether a stored description is that of ``schema``; a damaged one is not."""
    try:
        return bool(
            json.loads(columns) == describe_columns(schema)
            and json.loads(recording) == json.loads(schema.metadata)
        )
    except (ValueError, TypeError):
        return False


def _as_json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, default=str)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
