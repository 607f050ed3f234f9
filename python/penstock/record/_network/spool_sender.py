"""The spool of a sink, and the one task that empties it into the other side.

Every payload goes through the log on this machine's disk, also while the other side answers at
once. There is one writer (``append``), one reader (the sender), and one order, that of the log::

      rows        append                 sender                      the other side
    ---------> [ the log, durable ] ---> one payload at a time ---> takes it, or not
                 first ... next ... count

    first   the oldest record in a segment that is still there
    next    the record that is sent, or is sent next; kept in the file ``sent``
    count   the number of the record that is appended next

    state      means                    leaves by
    -----------------------------------------------------------------------------------------------
    IDLE       next == count            a record becomes durable: SENDING
    SENDING    next < count, and the    taken: next += 1, then IDLE or SENDING
               payload is on its way    Away: WAITING
    WAITING    next < count; nothing    the pause has passed, or ``finish`` wants a last attempt:
               is on its way            SENDING, with the same bytes
    FAILED     the log cannot be read   never; ``append`` raises the reason
    ENDED      after ``finish``         the next sink with this folder begins at ``next``

What holds in every state, so also at a kill:

1. A record is durable before any byte of it is sent. So what the other side has is never more than
   what is on this disk, and a row is at risk only until its append has returned, whether the other
   side answers or not.
2. ``next`` grows by one, only after the other side has taken the record ``next``, and is written
   down after that. So a payload is never skipped. After a kill between the two it is sent again:
   each protocol says how a row that comes twice is recognised.
3. A segment is removed only when ``next`` is behind its last record, and the last segment only by a
   ``finish`` that has found next == count. The mark goes first: without it, all that is there is
   sent again.
4. Nothing else sends. There is no second way for rows that come while the other side answers, so
   there is no moment at which the one way hands over to the other.

*Rejected:* sending live, and spooling what fails. Then a payload in flight, one that waits behind
it and those in the spool have three owners, and an answer that comes after its time-out decides
which one is right. A row that the live way has given up and the spool has not yet taken is in
neither when the process is killed; one that both have comes twice or out of order. The price of the
one way is a write and a sync of compressed rows for each half of a loss window, which every file of
a recording costs as well.

*Rejected:* several payloads in flight. One of some thousand rows an answer is faster than any
recorder, and ``next`` is then one number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import struct
from contextlib import aclosing
from pathlib import Path

from penstock.files import LogError, SegmentedLog
from penstock.record._network.protocol import Away, Misconfigured, Transport
from penstock.record._network.sent_mark import SentMark
from penstock.record.errors import SinkWriteError

__all__ = ["SpoolSender"]

_HEAD = struct.Struct("<4sI")  # the kind, the number of rows
_SEGMENT_BYTES = 8 << 20
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0
_RARELY_S = 30.0


class SpoolSender:
    """Appends payloads to the spool, and sends them. Its methods run on the sink's own loop.

    Any thread may read the attributes.

    Attributes:
        rows_waiting: rows of this run that the other side has not taken.
        rows_refused: rows that the other side will never take.
        trouble: why nothing is sent at present; None while all is well.
    """

    def __init__(self, transport: Transport, kind: bytes, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.rows_waiting = 0
        self.rows_refused = 0
        self.trouble: str | None = None
        self._transport = transport
        self._kind = kind
        self._most_bytes = most_bytes
        self._log = SegmentedLog(folder, segment_size=_SEGMENT_BYTES, mode=0o600)
        self._mark = SentMark(folder)
        self._next = 0
        self._bytes_waiting = 0
        self._own_first = 0  # the first record of this run
        self._failure: Exception | None = None
        self._sender: asyncio.Task[None] | None = None
        self._attempt_ended = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether the other side has taken every record."""
        return self._log.closed or self._next == self._log.count

    async def check(self) -> None:
        """Ask the other side whether it would take payloads.

        Raises:
            SinkWriteError: it would not, or does not answer.
        """
        try:
            await self._transport.check()
        except Away as error:
            raise SinkWriteError(f"cannot write to {self._transport}: {error}") from error
        finally:
            await self._transport.close()

    async def open(self) -> None:
        """Open the spool and begin to send what is in it.

        Raises:
            SinkWriteError: the folder cannot be used, or the other side refuses for good.
        """
        try:
            await self._transport.check()
        except Misconfigured as error:
            await self._transport.close()
            raise SinkWriteError(f"cannot write to {self._transport}: {error}") from error
        except Away as error:
            self.trouble = str(error)
        try:
            await self._log.open()
            self._next = self._mark.open(self._log.first, self._log.count)
        except (LogError, OSError) as error:
            await self._transport.close()
            await self._log.close()
            raise SinkWriteError(f"the spool {self.folder} cannot be opened: {error}") from error
        self._own_first = self._log.count
        self._bytes_waiting = sum(os.stat(path).st_size for path in self._log.segments)
        self._sender = asyncio.create_task(self._send_all())

    async def append(self, payloads: list[tuple[int, bytes]]) -> None:
        """Return when payloads, each with its number of rows, are durable in the spool.

        Raises:
            SinkWriteError: the spool has its largest size, or the disk refuses.
        """
        if self._failure is not None:
            raise SinkWriteError(str(self._failure)) from self._failure
        size = sum(len(payload) for _, payload in payloads)
        if self._bytes_waiting and self._bytes_waiting + size > self._most_bytes:
            raise SinkWriteError(
                f"the spool {self.folder} is full with {self._bytes_waiting} bytes, because "
                f"{self._transport} takes nothing ({self.trouble or 'it is too slow'}): mend that, "
                "or give the sink a larger spool"
            )
        try:
            await self._log.append_many(
                _HEAD.pack(self._kind, rows) + payload for rows, payload in payloads
            )
        except (LogError, OSError) as error:
            raise SinkWriteError(f"the spool {self.folder} cannot be written: {error}") from error
        self._bytes_waiting += size
        self.rows_waiting += sum(rows for rows, _ in payloads)

    async def finish(self, patience: float) -> None:
        """Send what is left, and close everything; the folder goes when nothing is in it.

        Where the other side is away, it is tried once more. ``patience`` is in seconds.

        Raises:
            SinkWriteError: records are left in the spool.
        """
        assert self._sender is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._last_attempts()
        self._sender.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._sender
        left = self._log.count - self._next
        try:
            if not left:
                self._remove()
        finally:
            self._mark.close()
            await self._log.close()
            await self._transport.close()
        if left:
            reason = self._failure or self.trouble or "it was too slow"
            raise SinkWriteError(
                f"{self._transport} did not take the last rows ({reason}): they wait in "
                f"{self.folder}, and the next recording with this spool sends them"
            ) from self._failure
        with contextlib.suppress(OSError):  # somebody else's files, or the next sink's
            self.folder.rmdir()

    async def _last_attempts(self) -> None:
        """Return when all is sent, or an attempt that began in here has failed."""
        self._hurry.set()
        while not self.is_empty and self._failure is None:
            before = self._next
            self._attempt_ended.clear()
            await self._attempt_ended.wait()
            if self._next == before and not self._hurry.is_set():
                return

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._mark.remove()
            for path in self._log.segments:
                os.unlink(path)

    async def _send_all(self) -> None:
        try:
            number = self._log.first
            async with aclosing(self._log.follow()) as records:
                async for record in records:
                    if number >= self._next:
                        await self._deliver(record)
                        await self._taken(record, number)
                    number += 1
        except Exception as error:
            self._failure = error
            self.trouble = str(error)
            self._attempt_ended.set()

    async def _deliver(self, record: bytes) -> None:
        """Return when the other side has taken ``record``."""
        kind, _ = _HEAD.unpack_from(record)
        if kind != self._kind:
            raise SinkWriteError(
                f"the spool {self.folder} holds rows for another kind of sink "
                f"({kind.decode(errors='replace')}): name another spool for this one"
            )
        pause = _FIRST_PAUSE_S
        while True:
            # An attempt that begins now is a last one too.
            hurried = self._hurry.is_set()
            try:
                self.rows_refused += await self._transport.send(record[_HEAD.size :])
            except Away as error:
                self.trouble = str(error)
                wanted = _RARELY_S if isinstance(error, Misconfigured) else pause
                if error.retry_after is not None:
                    wanted = min(max(wanted, error.retry_after), _LONGEST_PAUSE_S)
            else:
                self.trouble = None
                return
            if hurried:
                self._hurry.clear()
            self._attempt_ended.set()
            # Many recorders that have lost one server do not come back at one moment.
            await self._pause(wanted * random.uniform(0.75, 1.25))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _taken(self, record: bytes, number: int) -> None:
        _, rows = _HEAD.unpack_from(record)
        self._next = number + 1
        self._mark.write(self._next)
        self._bytes_waiting = max(0, self._bytes_waiting - len(record))
        if self._next == self._log.count:
            self._bytes_waiting = 0
        if number >= self._own_first:
            self.rows_waiting -= rows
        await self._log.remove_before(self._next)
        self._attempt_ended.set()
