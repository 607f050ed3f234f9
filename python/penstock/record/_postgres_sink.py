"""Recording into PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock._renamed import renamed
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._postgres_copy import Beginning, CopyEncoder, SpooledCopy
from penstock.record.errors import RecordError, SinkExistsError, SinkWriteError
from penstock.record.postgres_server import PostgresServer, check_new_table, load_psycopg
from penstock.record.sink import LossWindow


class PostgresSink(NetworkSink):
    """Writes the table ``samples`` of a PostgreSQL database with binary COPY.

    Time stamps are ``timestamptz``, rounded down to microseconds; ``t_mono_ns`` keeps nanoseconds.
    A row of ``penstock_parts`` has the columns with their units and the metadata. A batch with a
    new field, another unit or other metadata begins a new table, ``samples_2``.

    Every row is first written to ``spool``, a folder on this machine, and sent from there to the
    server in order. Each row is in its table exactly once, whichever process is killed: every COPY
    is noted in ``penstock_batches`` in the same transaction. The next sink with the same ``spool``
    sends the rows of a killed process.

    Args:
        dsn: a connection string or URI of libpq, whose environment variables such as ``PGHOST``
            count too.
        table: the name of the table; ``schema.table`` names an existing schema.
        overwrite: drop an existing table when the first rows reach the server.
        append: continue the last existing table if it has the same columns and metadata, else
            begin the next one, ``samples_2``. Each run of a recorder has metadata of its own.
            Without either, ``open`` raises SinkExistsError; if the server did not answer at
            ``open``, the rows go to the next free name too.
        spool: the folder; by default ``TABLE.postgres-spool`` in the current folder.
        spool_bytes: the largest size of the spool. Beyond it, writing raises SinkWriteError.
        connect_timeout: seconds to wait for a connection.
        timescale: None makes hypertables of TimescaleDB if the database has the extension, False
            never does. True also creates the extension; if that fails, ``open`` raises
            SinkWriteError.
        timeout: seconds to wait for one transaction. One that takes longer, for a lock or for the
            server's load, is tried again.
        close_timeout: seconds that ``close`` waits until the server has taken the last rows.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    Without psycopg, ``open`` raises SinkDependencyError. ``open`` raises SinkWriteError if the
    server refuses for good: a wrong password, no such database. If the server does not answer,
    ``open`` succeeds, and the sink goes on trying.

    Raises:
        ValueError: a table cannot have this name; or both ``overwrite`` and ``append``.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        dsn: str = "",
        *,
        table: str = "samples",
        overwrite: bool = False,
        append: bool = False,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        connect_timeout: float = 10.0,
        timescale: bool | None = None,
        timeout: float = 30.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        if overwrite and append:
            raise ValueError("overwrite and append exclude each other: pass one of them")
        check_new_table(table)
        beginning: Beginning = "overwrite" if overwrite else "append" if append else "new"
        server = PostgresServer(dsn, table, connect_timeout, timescale, patience=timeout)
        file = _SpooledTable(
            CopyEncoder(beginning),
            PostgresTransport(server, beginning, timeout),
            Path(f"{table}.postgres-spool" if spool is None else spool),
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
        self._server = server

    @property
    def server(self) -> str:
        """The host and the database, without the password."""
        return str(self._server)


class _SpooledTable(SpooledFile):
    """A spool that notes the facts of a run after its rows."""

    def __init__(
        self,
        encoder: CopyEncoder,
        transport: PostgresTransport,
        folder: Path,
        *,
        most_bytes: int,
        patience: float,
    ) -> None:
        super().__init__(encoder, transport, folder, most_bytes=most_bytes, patience=patience)
        self._copies = encoder

    def open(self) -> None:
        if self.sender.folder.is_file():
            raise SinkWriteError(
                f"{self.sender.folder} is a file, and a spool is a folder: let the version of "
                "Penstock that wrote it send its rows, or name another spool"
            )
        super().open()

    def close(self, facts: Mapping[str, Any]) -> None:
        self._copies.end(facts)
        super().close(facts)


# Transactions of a spool to PostgreSQL.
#
# libpq waits in a thread of its own, beside the sink's loop. A server that does not answer in time
# is left by closing the connection's socket, which ends that wait at once; what it makes of the
# transaction is then unknown, and the next attempt finds out by its number in ``penstock_batches``.

# Classes of SQLSTATE that time may mend, and one code: connection, a transaction that has paused,
# rollback, resources, locks, an operator (the manual, appendix "PostgreSQL Error Codes").
_NOT_NOW = ("08", "25P03", "40", "53", "55", "57", "58")
# FATAL without a code, while connecting: the same.
_SOON = ("the database system is", "too many", "slots are reserved", "terminating connection")


class PostgresTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of transactions with COPY.

    What the server has committed it keeps.
    """

    lag = grace = 0.0

    def __init__(self, server: PostgresServer, beginning: Beginning, timeout: float) -> None:
        self._server = server
        self._beginning = beginning
        self._timeout = timeout
        self._thread: ThreadPoolExecutor | None = None

    def __str__(self) -> str:
        return f"{self._server}, table {self._server.table}"

    async def check(self) -> None:
        await self._do(self._prepare)

    async def probe(self) -> None:
        await self._do(self._look)

    async def send(self, payload: bytes) -> int:
        await self._do(lambda: self._server.store(SpooledCopy.read(payload)))
        return 0

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._server.disconnect()
            thread.shutdown()

    def _prepare(self) -> None:
        self._server.connect()
        self._server.ask_for_timescale()
        self._refuse_existing()

    def _look(self) -> None:
        self._server.connect(listed=False)
        self._refuse_existing()

    def _refuse_existing(self) -> None:
        if self._beginning == "new" and self._server.table_exists():
            raise SinkExistsError(
                f"the table {self._server.table!r} already exists in {self._server}: choose "
                f"another name, or pass overwrite=True to replace it or append=True to continue it"
            )

    async def _do(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the thread. It has ended when this returns or raises."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "PostgreSQL")
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(future)
        except TimeoutError:
            await self._abandon(future)
            raise Away(f"no answer within {self._timeout:g} s") from None
        except asyncio.CancelledError:
            await self._abandon(future)
            raise
        except Exception as error:
            if (away := self._as_away(error)) is None:
                raise
            raise away from error

    async def _abandon(self, future: asyncio.Future[None]) -> None:
        """End what a server that does not answer is asked."""
        self._server.abort()
        await asyncio.wait([future])
        future.exception()  # nobody else asks for it
        self._server.disconnect()

    def _as_away(self, error: Exception) -> Away | None:
        if isinstance(error, RecordError) or not isinstance(error, self._server.errors()):
            return None
        text = " ".join(str(error).split()) or type(error).__name__
        state = getattr(error, "sqlstate", None) or ""
        if self._server.is_lost(error):
            self._server.disconnect()
        if state:
            kind = Away if state.startswith(_NOT_NOW) else Misconfigured
        else:
            malformed = isinstance(error, load_psycopg().ProgrammingError)
            refused = "FATAL:" in text and not any(words in text for words in _SOON)
            kind = Misconfigured if malformed or refused else Away
        return kind(text)
