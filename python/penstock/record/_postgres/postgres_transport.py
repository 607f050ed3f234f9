"""Transactions of a spool to PostgreSQL.

libpq waits in a thread of its own, beside the sink's loop. A server that does not answer in time is
left by closing the connection's socket, which ends that wait at once; what it makes of the
transaction is then unknown, and the next attempt finds out by its number in ``penstock_batches``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._postgres.spooled_copy import Beginning, SpooledCopy
from penstock.record.errors import RecordError, SinkExistsError
from penstock.record.postgres_server import PostgresServer, load_psycopg

__all__ = ["PostgresTransport"]

# Classes of SQLSTATE that time may mend: connection, rollback, resources, locks, an operator
# (the manual, appendix "PostgreSQL Error Codes").
_NOT_NOW = ("08", "40", "53", "55", "57", "58")
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
                f"the table {self._server.table!r} exists already in {self._server}: choose "
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
