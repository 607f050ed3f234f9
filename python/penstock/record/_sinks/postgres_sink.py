"""Recording into PostgreSQL, with a spool on disk for the time in which the server is away."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock._torn_end import Cut
from penstock.record._columns.batch import SampleBatch
from penstock.record._sinks.loss_window import LossWindow
from penstock.record._sinks.postgres_spool import PostgresSpool, SpooledBatch
from penstock.record._sinks.postgres_tables import copied_rows
from penstock.record.errors import SinkExistsError, SinkWriteError
from penstock.record.postgres_server import PostgresServer, load_psycopg
from penstock.record.schema import RecordSchema
from penstock.record.sink import ThreadedSink

__all__ = ["PostgresFile", "PostgresSink"]

# One transaction holds at most so many rows.
_ROWS_A_COPY = 65_536
_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 30.0


class PostgresSink(ThreadedSink):
    """Writes the table ``samples`` of a PostgreSQL database with binary COPY.

    Time stamps are ``timestamptz``, rounded down to microseconds; ``t_mono_ns`` keeps nanoseconds.
    A row of ``penstock_parts`` has the columns with their units and the metadata. A batch with a
    new field, another unit or other metadata begins a new table, ``samples_2``.

    While the server is away the rows go to ``spool``, a file on this machine, and are sent once it
    answers again, each exactly once: every COPY is noted in ``penstock_batches`` in its own
    transaction. The spool of a process that was killed is sent by the next sink with the same
    ``spool``. What is still in it at ``close`` is an error, and stays there.

    Args:
        dsn: a connection string or URI of libpq; ``PGHOST`` and the like count too.
        table: another name than ``samples``; ``schema.table`` names a schema that is there.
        overwrite: drop the table that is there, when the first batch comes.
        append: continue the table that is there. Without either, ``open`` raises SinkExistsError.
        force: send the spool of an earlier run also where a batch in it is damaged and others
            follow. Those are then kept beside it, in ``NAME.torn``, and not sent.
        spool: the file; by default ``TABLE.postgres-spool`` in the current folder.
        connect_timeout: seconds to wait for the server.
        timescale: None makes hypertables of TimescaleDB where the extension is in the database,
            False never; True also creates the extension, and without it ``open`` raises
            SinkWriteError.
        loss_seconds: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    Needs psycopg (SinkDependencyError at ``open``). The server has to be there at ``open``.
    """

    def __init__(
        self,
        dsn: str = "",
        *,
        table: str = "samples",
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        spool: str | os.PathLike[str] | None = None,
        connect_timeout: float = 10.0,
        timescale: bool | None = None,
        loss_seconds: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        file = PostgresFile(
            PostgresServer(dsn, table, connect_timeout, timescale),
            Path(f"{table}.postgres-spool" if spool is None else spool),
            overwrite=overwrite,
            append=append,
            force=force,
        )
        super().__init__(file, LossWindow(loss_seconds, loss_rows))
        self._target = file

    def __repr__(self) -> str:
        return f"PostgresSink({str(self._target.server)!r})"

    @property
    def server(self) -> str:
        """The host and the database, without the password."""
        return str(self._target.server)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The spool, while rows are in it."""
        spool = self._target.spool.path
        return (spool,) if spool.exists() else ()

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """What ``open`` has cut off the spool of an earlier run, and where that is kept."""
        return tuple(self._target.spool.cuts)


class PostgresFile:
    """The synchronous half of :class:`PostgresSink`."""

    def __init__(
        self,
        server: PostgresServer,
        spool: Path,
        *,
        overwrite: bool,
        append: bool,
        force: bool,
    ) -> None:
        if overwrite and append:
            raise ValueError("overwrite and append exclude each other: pass one of them")
        self.server = server
        self.spool = PostgresSpool(spool)
        self._overwrite = overwrite
        self._append = append
        self._force = force
        self._open = False
        self._begun = False
        self._schema: RecordSchema | None = None
        self._waiting: list[SpooledBatch] = []
        self._waiting_rows = 0
        self._retry_at = 0.0
        self._retry_after = _FIRST_RETRY_S
        self._rows = 0

    def open(self) -> None:
        load_psycopg()
        self.spool.lock()
        try:
            self.server.connect()
            self.server.ask_for_timescale()
            left = self.spool.read(force=self._force)
            for batch in left:
                self.server.send([batch])
            self.spool.clear()
            if self.server.table_exists() and not (self._overwrite or self._append):
                raise SinkExistsError(
                    f"the table {self.server.table!r} exists already in {self.server}: choose "
                    f"another name, or pass overwrite=True to replace it or append=True to "
                    f"continue it"
                )
        except BaseException as error:
            self.server.disconnect()
            self.spool.release()
            if isinstance(error, self.server.errors()):
                raise SinkWriteError(f"cannot open {self.server}: {_one_line(error)}") from error
            raise
        self._open = True

    def write(self, batch: SampleBatch) -> None:
        if not self._open:
            raise SinkWriteError(f"{self.server} accepts no more samples after an earlier error")
        if self._schema is None:
            self._begin(batch.schema, append=self._append)
        elif (widened := self._schema.continued_by(batch.schema)) is not None:
            self._send()
            self._begin(widened, append=False)
        if not len(batch):
            return
        assert self._schema is not None
        for start in range(0, len(batch), _ROWS_A_COPY):
            self._add(batch, start, min(start + _ROWS_A_COPY, len(batch)))

    def sync(self) -> None:
        self._send()

    def close(self, facts: Mapping[str, Any]) -> None:
        if not self._open:
            return
        self._open = False
        try:
            self._retry_at = 0.0
            self._send()
            if not self.spool.is_empty():
                raise SinkWriteError(
                    f"{self.server} did not answer: the last rows wait in {self.spool.path}, and "
                    f"the next recording with this spool sends them"
                )
            if self._schema is not None:
                try:
                    self.server.note_facts({"rows": self._rows, **facts})
                except self.server.errors() as error:
                    raise SinkWriteError(
                        f"cannot finish {self.server}: {_one_line(error)}; all rows are there"
                    ) from error
        finally:
            self.server.disconnect()
            self.spool.release()

    def _add(self, batch: SampleBatch, start: int, stop: int) -> None:
        """Let rows wait, with those before them in one COPY where it has room."""
        assert self._schema is not None
        columns, rows = copied_rows(batch, self._schema, start, stop)
        count = stop - start
        last = self._waiting[-1] if self._waiting else None
        if last is None or last.columns != columns or last.count + count > _ROWS_A_COPY:
            last = self.server.new_batch(columns)
            self._waiting.append(last)
        last.rows.append(rows)
        last.count += count
        self._rows += count
        self._waiting_rows += count
        if self._waiting_rows >= _ROWS_A_COPY:
            self._send()

    def _begin(self, schema: RecordSchema, *, append: bool) -> None:
        try:
            if self._overwrite and not self._begun:
                self.server.drop_table()
            self.server.begin_table(schema, append=append)
        except self.server.errors() as error:
            raise SinkWriteError(
                f"cannot create a table in {self.server}: {_one_line(error)}; "
                f"the rows before are kept"
            ) from error
        self._begun = True
        self._schema = schema

    def _send(self) -> None:
        """Make what waits durable: in the database, or in the spool while the server is away."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if self.spool.is_empty():
            if not waiting:
                return
            try:
                self.server.send(waiting)
                return
            except self.server.errors() as error:
                self._refuse_unless_lost(error, waiting)
                self._retry_at = time.monotonic() + self._retry_after
        self.spool.append(waiting)
        if time.monotonic() >= self._retry_at:
            self._empty_spool()

    def _empty_spool(self) -> None:
        try:
            self.server.connect()
            for batch in self.spool.read():
                self.server.send([batch])
        except self.server.errors() as error:
            self._refuse_unless_lost(error, [])
            self._retry_after = min(2 * self._retry_after, _LAST_RETRY_S)
            self._retry_at = time.monotonic() + self._retry_after
        else:
            self.spool.clear()
            self._retry_after = _FIRST_RETRY_S

    def _refuse_unless_lost(self, error: Exception, waiting: Sequence[SpooledBatch]) -> None:
        """Raise for what a new connection does not mend, with the rows kept in the spool."""
        if self.server.is_lost(error):
            self.server.disconnect()
            return
        self.spool.append(waiting)
        raise SinkWriteError(
            f"cannot write to {self.server}: {_one_line(error)}; the rows wait in {self.spool.path}"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
