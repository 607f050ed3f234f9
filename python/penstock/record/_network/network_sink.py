"""A sink of another machine: rows to payloads, payloads to the spool, outside the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.protocol import Encoder, Transport
from penstock.record.errors import SinkWriteError
from penstock.record.sink import LossWindow, ThreadedSink

# Rows of so many bytes are one payload, even within half of a loss window.
_PAYLOAD_BYTES = 2 << 20


class SpooledFile:
    """A :class:`~penstock.record.sink.RecordFile` whose disk is a spool.

    Args:
        encoder: makes the payloads.
        transport: takes them.
        folder: of the spool; created when it is opened, and removed when it is closed empty.
        most_bytes: the spool's largest size.
        patience: seconds that ``close`` waits for the other side.
    """

    def __init__(
        self,
        encoder: Encoder,
        transport: Transport,
        folder: Path,
        *,
        most_bytes: int,
        patience: float,
    ) -> None:
        # Here, because recordings are read and written as files without an event loop too.
        from penstock.record._network.loop_thread import LoopThread
        from penstock.record._network.spool_sender import SpoolSender

        self.transport = transport
        self.sender: SpoolSender = SpoolSender(transport, encoder.kind, folder, most_bytes)
        self._encoder = encoder
        self._patience = patience
        self._loop = LoopThread(f"sink of {transport}")
        self._open = False

    def open(self) -> None:
        self._start()
        try:
            self._loop.call(self.sender.open)
        except BaseException:
            self._loop.stop()
            raise
        self._open = True

    def check(self) -> None:
        """Ask whether the other side would take rows; nothing is made.

        Raises:
            SinkWriteError: it would not, or does not answer.
        """
        self._start()
        try:
            self._loop.call(self.sender.check)
        finally:
            self._loop.stop()

    def _start(self) -> None:
        try:
            self._loop.start()
        except OSError as error:
            raise SinkWriteError(f"the sink of {self.transport} cannot begin: {error}") from error

    def write(self, batch: SampleBatch) -> None:
        if not self._open:
            raise SinkWriteError(f"{self.transport} does not accept rows after it was closed")
        self._encoder.add(batch)
        if self._encoder.size >= _PAYLOAD_BYTES:
            self.sync()

    def sync(self) -> None:
        if payloads := self._encoder.take():
            self._loop.call(self.sender.append, payloads)

    def close(self, facts: Mapping[str, Any]) -> None:
        if not self._open:
            return
        self._open = False
        failures: list[Exception] = []
        try:
            self.sync()
        except Exception as error:  # whatever it is, the spool is finished and released
            failures.append(error)
        try:
            self._loop.call(self.sender.finish, self._patience)
        except Exception as error:
            failures.append(error)
        finally:
            self._loop.stop()
        if lost := self._lost(has_others=not failures):
            failures.append(SinkWriteError("; ".join(lost)))
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(f"also: {other}")
            raise first

    def _lost(self, *, has_others: bool) -> list[str]:
        """What the other side does not have, although it was spooled and sent."""
        lost = []
        if damaged := self.sender.damaged:
            lost.append(
                f"the disk has damaged the spool {self.sender.folder}: what could be read was "
                f"sent, and the damaged files are {', '.join(map(str, damaged))}"
            )
        if refused := self.sender.rows_refused:
            others = ", and has all others" if has_others else ""
            lost.append(f"{self.transport} refused {refused} rows{others}; {self.refusals()}")
        return lost

    def refusals(self) -> str:
        """Where the refused rows are, and why they were refused."""
        told = getattr(self.transport, "refusals", None)
        return str(told()) if told is not None else "it did not say why"


class NetworkSink(ThreadedSink):
    """A sink of another machine. Rows are durable in the spool within the loss window."""

    def __init__(self, file: SpooledFile, window: LossWindow) -> None:
        super().__init__(file, window)
        self._spooled = file

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def check(self) -> None:
        """Ask the other side whether it would take rows, instead of ``open``; nothing is made.

        Raises:
            SinkWriteError: it would not, or does not answer.
        """
        await anyio.to_thread.run_sync(self._spooled.check)

    @property
    def server(self) -> str:
        """The other side, without secrets."""
        return str(self._spooled.transport)

    @property
    def spool(self) -> Path:
        """The folder of rows that the other side does not have yet."""
        return self._spooled.sender.folder

    @property
    def paths(self) -> tuple[Path, ...]:
        """The spool, while it is there."""
        return (self.spool,) if self.spool.exists() else ()

    @property
    def trouble(self) -> str | None:
        """Why rows wait in the spool; None while they are taken. Any thread may read it."""
        return self._spooled.sender.trouble

    @property
    def is_refused(self) -> bool:
        """Whether rows wait because the server refuses them, so that somebody must correct it.

        False while they are taken, and while the server is only away. Any thread may read it.
        """
        return self._spooled.sender.is_refused

    @property
    def rows_waiting(self) -> int:
        """Rows of this run in the spool. Any thread may read it."""
        return self._spooled.sender.rows_waiting

    @property
    def all_sent(self) -> bool:
        """Whether the other side has taken all that is in the spool. Any thread may read it."""
        return self._spooled.sender.is_empty

    @property
    def rows_refused(self) -> int:
        """Rows that the other side will never take. Any thread may read it."""
        return self._spooled.sender.rows_refused

    @property
    def refusals(self) -> str:
        """Where the refused rows are, and why they were refused. Any thread may read it."""
        return self._spooled.refusals()
