"""An archive in PostgreSQL: the rows of a run and its manifest in one transaction.

So a row is there exactly if the manifest says so, and an archiver that was killed leaves nothing
behind. The manifest's row is locked first: of two archivers that both take a run for theirs, the
later one finds another version than it knows, and has changed nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._nats.run_reader import StreamMessage
from penstock.record._postgres_copy import copied_rows, storable_json
from penstock.record.archives.manifest import ArchivedFile, DeviceMark, Fenced, Manifest
from penstock.record.archives.run_archive import RUN_COLUMN, rows_of_message
from penstock.record.archives.stores import ArchiveError
from penstock.record.archives.waiting_run import RunOptions, WaitingRun, identity_of
from penstock.record.arrow import pyarrow_module
from penstock.record.errors import SinkSchemaError
from penstock.record.postgres_server import PostgresServer, check_new_table, load_psycopg
from penstock.record.schema import RecordSchema

__all__ = ["PostgresArchive"]

_TABLES = """
CREATE TABLE IF NOT EXISTS {runs} (
    run text PRIMARY KEY,
    version bigint NOT NULL,
    manifest jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS {recordings} (
    run text NOT NULL,
    digest text NOT NULL,
    recording jsonb NOT NULL,
    PRIMARY KEY (run, digest)
);
CREATE TABLE IF NOT EXISTS {refused} (
    run text NOT NULL,
    sequence bigint NOT NULL,
    message bytea NOT NULL
);
"""


class PostgresArchive:
    """An archive in a PostgreSQL database, for :class:`Archiver`.

    Rows of all runs with the same fields and units are in one table, ``samples``, others in
    ``samples_2`` and so on; ``archive_run``, ``device`` and ``archive_row`` are a row's own for all
    time. Time stamps are rounded down to microseconds, as by
    :class:`~penstock.record.PostgresSink`. Where TimescaleDB is in the database, the tables are
    hypertables. ``penstock_archive`` has each run's manifest, ``penstock_archive_recordings`` the
    metadata of its recordings, and ``penstock_archive_refused`` messages that are none of a
    recorder's.

    One connection serves all runs of an archiver. Any thread may use it.

    Args:
        dsn: a connection string or URI of libpq; ``PGHOST``, ``~/.pgpass`` and the like count too.
        table: another name than ``samples``; ``schema.table`` names a schema that is there.
        connect_timeout: seconds to wait for the server.

    Raises:
        SinkDependencyError: psycopg is not installed.
        ValueError: a table cannot have this name.
    """

    def __init__(self, dsn: str, *, table: str = "samples", connect_timeout: float = 10.0) -> None:
        load_psycopg()
        check_new_table(table)
        self._server = PostgresServer(dsn, table, connect_timeout)
        self._lock = threading.Lock()
        self._prepared = False

    def __str__(self) -> str:
        """The target without its password."""
        return str(self._server)

    def archive_of(self, run: str, options: RunOptions) -> WaitingRun[Any]:
        """The archive of one run, for its one owner."""
        return _PostgresRun(self, run, options)

    def close(self) -> None:
        """Close the connection; the next use makes another one."""
        with self._lock:
            self._server.disconnect()

    @contextmanager
    def transaction(self) -> Iterator[tuple[PostgresServer, Any]]:
        """A transaction: the server, and psycopg's connection.

        Raises:
            ArchiveError: the server does not take it now. It may have committed it nevertheless.
        """
        server = self._server
        with self._lock:
            try:
                with server.transaction() as connection:
                    if not self._prepared:
                        connection.execute(_TABLES.format_map(self._names()))
                    yield server, connection
                self._prepared = True
            except server.errors() as error:
                if server.is_lost(error):
                    server.disconnect()
                raise ArchiveError(
                    f"{server} does not accept the archive: {' '.join(str(error).split())}; check "
                    "that it runs, its space, and what its user may do"
                ) from error

    def _names(self) -> dict[str, str]:
        qualified = self._server.qualified
        return {
            "runs": qualified("penstock_archive"),
            "recordings": qualified("penstock_archive_recordings"),
            "refused": qualified("penstock_archive_refused"),
        }


@dataclass(slots=True)
class _Copied:
    """Rows for one table."""

    columns: list[str]
    rows: list[bytes] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What one transaction writes; the same again after an unclear answer."""

    token: str
    tables: dict[RecordSchema, _Copied]
    recordings: dict[str, str]
    refused: list[StreamMessage]
    devices: dict[str, DeviceMark]


class _PostgresRun(WaitingRun[_Prepared]):
    """A :class:`~penstock.record.archives.waiting_run.WaitingRun` of a :class:`PostgresArchive`."""

    def __init__(self, archive: PostgresArchive, run: str, options: RunOptions) -> None:
        super().__init__(run, options)
        self._archive = archive

    def load(self) -> None:
        with self._archive.transaction() as (server, connection):
            found = self._found(server, connection)
        self._has_loaded(found)

    def _commit(self, prepared: _Prepared) -> Manifest:
        with self._archive.transaction() as (server, connection):
            return self._write(server, connection, prepared)

    def tidy(self, least: int | None = None) -> bool:
        return False  # a data base keeps itself in order

    def _found(self, server: PostgresServer, connection: Any, lock: str = "") -> Manifest:
        row = connection.execute(
            f"SELECT version, manifest::text FROM {server.qualified('penstock_archive')} "
            f"WHERE run = %s {lock}",
            (self.run,),
        ).fetchone()
        if row is None or not row[0]:
            return Manifest(self.run)
        return Manifest.from_json(row[1].encode(), f"the row of {self.run} in penstock_archive")

    def _write(self, server: PostgresServer, connection: Any, prepared: _Prepared) -> Manifest:
        runs = server.qualified("penstock_archive")
        connection.execute(
            f"INSERT INTO {runs} VALUES (%s, 0, '{{}}') ON CONFLICT DO NOTHING", (self.run,)
        )
        found = self._found(server, connection, "FOR UPDATE")
        if found.token == prepared.token:
            return found  # committed before; its answer was lost
        if found.version != self.manifest.version:
            raise Fenced
        tables = {each.name: each for each in found.files}
        for schema, copied in prepared.tables.items():
            name = server.table_for(schema)
            server.copy(name, copied.columns, copied.rows)
            before = tables.get(name, ArchivedFile(name, 0, 0, 0, ""))
            tables[name] = replace(before, rows=before.rows + copied.count)
        for digest, recording in prepared.recordings.items():
            connection.execute(
                f"INSERT INTO {server.qualified('penstock_archive_recordings')} "
                f"VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (self.run, digest, recording),
            )
        for message in prepared.refused:
            connection.execute(
                f"INSERT INTO {server.qualified('penstock_archive_refused')} VALUES (%s, %s, %s)",
                (self.run, message.sequence, message.payload),
            )
        sequence, identity = self._position
        manifest = replace(
            found,
            version=found.version + 1,
            token=prepared.token,
            sequence=sequence,
            message_id=identity,
            devices=prepared.devices,
            schemas=tuple(dict.fromkeys((*found.schemas, *prepared.recordings))),
            files=tuple(tables.values()),
            refused=found.refused + len(prepared.refused),
        )
        connection.execute(
            f"UPDATE {runs} SET version = %s, manifest = %s WHERE run = %s",
            (manifest.version, manifest.to_json().decode(), self.run),
        )
        return manifest

    def _prepare(self) -> _Prepared:
        tables: dict[RecordSchema, _Copied] = {}
        recordings: dict[str, str] = {}
        refused = list(self._refused)
        marks = dict(self._marks)
        for message in self._waiting:
            batch = _batch(message)
            if batch is None:
                refused.append(message)
                continue
            recording = storable_json(batch.schema.metadata)
            recordings[hashlib.sha256(recording.encode()).hexdigest()[:16]] = recording
            schema = replace(batch.schema, metadata="{}")
            columns, rows = copied_rows(batch, schema, 0, len(batch))
            copied = tables.setdefault(schema, _Copied(columns))
            copied.rows.append(rows)
            copied.count += len(batch)
            _, device, _ = identity_of(message)
            marks[device] = replace(marks[device], rows=marks[device].rows + len(batch))
        return _Prepared(secrets.token_hex(8), tables, recordings, refused, marks)


def _batch(message: StreamMessage) -> SampleBatch | None:
    """The rows of a message with their run and numbers; None if they are not a recorder's."""
    table = rows_of_message(message)
    if table is None:
        return None
    pa = pyarrow_module()
    run, _, _ = identity_of(message)
    # One text for all rows.
    runs = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(table)), [run])
    try:
        return SampleBatch.from_arrow(table.append_column(RUN_COLUMN, runs))
    except SinkSchemaError:
        return None
