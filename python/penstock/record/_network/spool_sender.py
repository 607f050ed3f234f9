"""The spool of a sink, and the one task that empties it into the other side.

Every payload goes through the log on this machine's disk, even while the other side answers at
once. There is one writer (``append``), one reader (the sender), and one order, that of the log::

      rows        append                 sender                      the other side
    ---------> [ the log, durable ] ---> one payload at a time ---> takes it, or not
                 first ... next ... count

    first   the oldest record in a segment that is still there
    safe    the oldest record that the other side may still lose; kept in the file ``sent``
    next    the record that is sent, or is sent next
    count   the number of the record that is appended next

``safe`` is ``next``, unless the transport has a *lag*: a broker that answers before the rows are on
its own disk, or in its reader's hands. Then ``safe`` is the oldest record that was taken less than
so many seconds ago, and all from there on are sent again when the connection is lost. ``finish``
waits for the transport's *grace*, a part of the lag, and asks then whether the connection still is.

    state      means                    leaves by
    -----------------------------------------------------------------------------------------------
    IDLE       next == count            a record becomes durable: SENDING
    SENDING    next < count, and the    taken: next += 1, then IDLE or SENDING
               payload is on its way    Away: next = safe, then WAITING
    WAITING    next < count; nothing    the pause has passed, or ``finish`` wants a last attempt:
               is on its way            SENDING, with the same bytes
    FAILED     the log cannot be read   never; ``append`` raises the reason
    ENDED      after ``finish``         the next sink with this folder begins at ``next``

What holds in every state, so also at a kill:

1. A record is durable before any byte of it is sent. So what the other side has is never more than
   what is on this disk, and a row is at risk only until its append has returned, whether the other
   side answers or not.
2. ``next`` grows by one, only after the other side has taken the record ``next``; ``safe`` never
   passes it, never falls, and is written down after that. So a payload is never skipped. After a
   kill between the two it is sent again: each protocol says how a row that comes twice is
   recognised.
3. A segment is removed only when ``safe`` is behind its last record, and the last segment only by a
   ``finish`` that has found next == count. The mark goes first: without it, all that is there is
   sent again.
4. Nothing else sends. There is no second way for rows that come while the other side answers, so
   there is no moment at which the one way hands over to the other.

A segment that the disk has damaged is the exception to 2 and 3: what can be read of it is sent, a
copy of it stays beside the spool, and ``next`` and ``safe`` are then behind it.

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
import filecmp
import os
import random
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import count
from pathlib import Path
from zlib import crc32

from penstock._durable_files import put_file, write_fully
from penstock.files import (
    LogDamaged,
    LogError,
    NotALog,
    SegmentedLog,
    read_log,
    salvage_log,
)
from penstock.record._network.protocol import Away, Misconfigured, Transport
from penstock.record.errors import SinkWriteError

_HEAD = struct.Struct("<4sI")  # the kind, the number of rows
_SEGMENT_BYTES = 8 << 20
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0
_RARELY_S = 30.0
_LONGEST_ASKED_S = 300.0
_BATCH_BYTES = 16 << 20  # a log takes 64 MiB at once


class SpoolSender:
    """Appends payloads to the spool, and sends them. Its methods run on the sink's own loop.

    Any thread may read the attributes.

    Attributes:
        rows_waiting: rows of this run that the other side has not taken.
        rows_refused: rows that the other side will never take.
        trouble: why nothing is sent at present; None while all is well.
        is_refused: whether the other side has answered that, and somebody must correct something.
        damaged: segments that the disk has damaged, kept beside the spool. What can be read of them
            is sent.
    """

    def __init__(self, transport: Transport, kind: bytes, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.rows_waiting: int = 0
        self.rows_refused: int = 0
        self.trouble: str | None = None
        self.is_refused: bool = False
        self.damaged: list[Path] = []
        self._transport = transport
        self._kind = kind
        self._most_bytes = most_bytes
        self._log: SegmentedLog  # since ``open``: its locks are those of the loop that makes it
        self._mark = SentMark(folder)
        self._addressee = Addressee(folder)
        self._next = 0
        self._safe = 0
        self._read = 0  # the record that is read, or is read next, from the log's first one on
        self._taken: deque[tuple[int, float]] = deque()  # behind ``safe``, with the moment
        self._bytes_waiting = 0
        self._own_first = 0  # the first record of this run
        self._newest = -1  # the last record that was ever taken
        self._failure: Exception | None = None
        self._sender: asyncio.Task[None] | None = None
        self._attempt_ended = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether the other side has taken every record."""
        return self._log.closed or self._next == self._log.count

    async def check(self) -> None:
        """Ask the other side whether it would take payloads; it is left as it is.

        Raises:
            SinkWriteError: it would not, or does not answer.
        """
        try:
            await self._transport.probe()
        except Away as error:
            raise SinkWriteError(f"cannot write to {self._transport}: {error}") from error
        finally:
            await self._transport.close()

    async def open(self) -> None:
        """Open the spool and begin to send what is in it.

        Raises:
            SinkWriteError: the folder cannot be used, or the other side refuses for good.
        """
        # Before the other side is asked: another recorder of this spool may be talking to it, under
        # the same name.
        self._log = SegmentedLog(self.folder, segment_size=_SEGMENT_BYTES, mode=0o600)
        try:
            await self._log.open()
            self._next = self._safe = self._mark.open(self._log.first, self._log.count)
            left = self._next < self._log.count
            self._addressee.claim(str(self._transport), records_left=left)
        except (LogError, OSError, ValueError) as error:
            self._mark.close()
            await self._transport.close()
            await self._log.close()
            raise SinkWriteError(f"the spool {self.folder} cannot be opened: {error}") from error
        try:
            await self._transport.check()
        except Misconfigured as error:
            await self._abandon()
            raise SinkWriteError(f"cannot write to {self._transport}: {error}") from error
        except Away as error:
            self.trouble = str(error)
        except BaseException:
            await self._abandon()
            raise
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
                f"{self._transport} accepts nothing ({self.trouble or 'it is too slow'}): fix "
                "that, or give the sink a larger spool"
            )
        try:
            for batch in _batches(_HEAD.pack(self._kind, rows) + data for rows, data in payloads):
                await self._log.append_many(batch)
        except (LogError, OSError, ValueError) as error:  # ValueError: a record is too long
            raise SinkWriteError(f"the spool {self.folder} cannot be written: {error}") from error
        self._bytes_waiting += size
        self.rows_waiting += sum(rows for rows, _ in payloads)

    async def finish(self, patience: float) -> None:
        """Send what is left, and close everything; the folder goes when nothing is in it.

        Where the other side is away, it is tried once more. ``patience`` is in seconds.

        Raises:
            SinkWriteError: records are left in the spool.
        """
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._last_attempts()
                    while self._taken and self.is_empty and self._transport.grace:
                        await asyncio.sleep(self._transport.grace)
                        if await self._keeps_all():
                            break
                        await self._last_attempts()
        finally:
            await self._stop_sending()
            left = await self._leave()
        if left:
            reason = self._failure or self.trouble or "it was too slow"
            raise SinkWriteError(
                f"{self._transport} did not accept the last rows ({reason}): they wait in "
                f"{self.folder}, and the next recording with this spool sends them"
            ) from self._failure
        self._remove_folder()

    async def _leave(self) -> int:
        """Close everything; how many records are left. Without one, the files go."""
        left = self._log.count - self._next
        try:
            if not left:
                self._remove()
        finally:
            self._mark.close()
            await self._log.close()
            await self._transport.close()
        return left

    async def _abandon(self) -> None:
        """Leave a spool as it was found, or no folder where nothing was in it."""
        if not await self._leave():
            self._remove_folder()

    def _remove_folder(self) -> None:
        with contextlib.suppress(OSError):  # somebody else's files, or the next sink's
            self.folder.rmdir()

    async def _keeps_all(self) -> bool:
        """Whether the other side is still there with what it has taken; if not, that is sent again.

        Called where nothing is on its way.
        """
        try:
            await self._transport.check()
        except Exception as error:  # whatever it is, what was taken may be lost
            lost_at = error.lost_at if isinstance(error, Away) else None
            if self._go_back(time.monotonic() if lost_at is None else lost_at):
                self.is_refused = isinstance(error, Misconfigured)
                self.trouble = str(error)
                await self._stop_sending()
                self._sender = asyncio.create_task(self._send_all())
                return False
        return True

    async def _stop_sending(self) -> None:
        assert self._sender is not None
        self._sender.cancel()
        await asyncio.wait([self._sender])

    async def _last_attempts(self) -> None:
        """Return when all is sent, or an attempt that began in here has failed."""
        self._hurry.set()
        while not self.is_empty and self._failure is None and self._hurry.is_set():
            self._attempt_ended.clear()
            await self._attempt_ended.wait()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._mark.remove()
            for path in self._log.segments:
                os.unlink(path)
            self._addressee.remove()

    async def _send_all(self) -> None:
        try:
            more = True
            while more:
                try:
                    more = await self._send_from_next()
                except (LogDamaged, NotALog) as error:
                    await self._pass_damage(error)
        except Exception as error:
            self._failure = error
            self.trouble = str(error)
            self._attempt_ended.set()

    async def _send_from_next(self) -> bool:
        """Send records until the log is closed; True when ``next`` has gone back meanwhile."""
        self._read = self._log.first
        async with aclosing(self._log.follow()) as records:
            async for record in records:
                if self._read >= self._next:
                    if await self._deliver(record, self._read):
                        return True
                    await self._has_taken(record, self._read)
                self._read += 1
        return False

    async def _pass_damage(self, error: LogDamaged | NotALog) -> None:
        """Send what can be read of a damaged segment, and let the next record be behind it.

        The segment stays beside the spool. A segment that is damaged when it is opened for writing
        is told by ``open``. Where ``next`` goes back meanwhile, this is done again.
        """
        path = Path(error.path)
        first = int(path.stem)
        if error.path == self._log.segments[-1]:
            await self._log.rotate()
        following = min(n for n in (int(Path(p).stem) for p in self._log.segments) if n > first)
        kept = _kept_beside(self.folder, path)
        if kept not in self.damaged:
            self.damaged.append(kept)
        good = await self._good_records(path)
        for place, record in enumerate(good):
            # Behind the damage, the highest number that it may have.
            number = first + place
            if number >= self._read:
                number = following - len(good) + place
            if number >= self._next:
                if await self._deliver(record, number):
                    return
                await self._has_taken(record, number)
        self._taken.clear()
        self._next = self._safe = max(self._next, following)
        with contextlib.suppress(OSError):
            self._mark.write(self._safe)
        await self._log.remove_before(following)
        if self._log.first < following:
            raise error  # it cannot be removed, and would be read again for ever
        self._attempt_ended.set()

    async def _good_records(self, path: Path) -> list[bytes]:
        salvaged = self.folder / "salvaged"
        try:
            salvaged.unlink(missing_ok=True)
            await salvage_log(path, salvaged)
            async with aclosing(read_log(salvaged)) as records:
                return [record async for record in records]
        except NotALog:
            return []  # not one record is left
        finally:
            salvaged.unlink(missing_ok=True)

    async def _deliver(self, record: bytes, number: int) -> bool:
        """Return when the other side has taken a record; True if ``next`` went back instead."""
        kind = record[: len(self._kind)]
        if kind != self._kind or len(record) < _HEAD.size:
            raise SinkWriteError(
                f"the spool {self.folder} holds rows for another kind of sink "
                f"({kind.decode(errors='replace')}): name another spool for this one"
            )
        pause = _FIRST_PAUSE_S
        while True:
            began = lost_at = time.monotonic()
            # An attempt that begins now is a last one too.
            hurried = self._hurry.is_set()
            try:
                rows_refused = await self._transport.send(record[_HEAD.size :])
            except (Away, OSError) as error:
                away = error if isinstance(error, Away) else _of_this_machine(error)
                refused = isinstance(away, Misconfigured) and str(away) != self.trouble
                self.is_refused = isinstance(error, Misconfigured)
                self.trouble = str(away)
                lost_at = min(lost_at, away.lost_at or lost_at)
                wanted = _RARELY_S if isinstance(away, Misconfigured) else pause
                least = 0.75 * wanted
                if away.retry_after is not None:
                    least = max(least, min(away.retry_after, _LONGEST_ASKED_S))
            else:
                self.trouble, self.is_refused = None, False
                if number > self._newest:  # what is sent again is refused again
                    self.rows_refused += rows_refused
                return False
            went_back = self._go_back(lost_at)
            if lost_at < began and not went_back and not refused:
                continue  # only the news of a connection that had ended before
            if hurried and not went_back:
                self._hurry.clear()
            self._attempt_ended.set()
            # Many recorders that have lost one server do not come back at one moment.
            await self._pause(least + wanted * random.uniform(0, 0.5))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            if went_back:
                return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _go_back(self, lost_at: float) -> bool:
        """Let ``next`` be ``safe``, where the other side may have lost what it had taken."""
        self._forget_those_before(lost_at)
        if not self._taken:
            return False
        self._taken.clear()
        self._next = self._safe
        return True

    def _forget_those_before(self, moment: float) -> None:
        """Let ``safe`` pass the records that were taken long enough before ``moment``."""
        old = moment - self._transport.lag
        while self._taken and self._taken[0][1] <= old:
            self._safe = self._taken.popleft()[0] + 1

    async def _has_taken(self, record: bytes, number: int) -> None:
        _, rows = _HEAD.unpack_from(record)
        self._next = number + 1
        now = time.monotonic()
        self._taken.append((number, now))
        self._forget_those_before(now)
        # Without it more is sent again after a kill. A full disk of a file system that writes each
        # block to a new place refuses it; the segments that go make room there.
        with contextlib.suppress(OSError):
            self._mark.write(self._safe)
        if number > self._newest:
            self._newest = number
            self._bytes_waiting = max(0, self._bytes_waiting - len(record))
            if number >= self._own_first:
                self.rows_waiting -= rows
        if self._next == self._log.count:
            self._bytes_waiting = 0
        await self._log.remove_before(self._safe)
        self._attempt_ended.set()


def _kept_beside(folder: Path, segment: Path) -> Path:
    """Where a damaged segment of a spool stays: a file beside the folder. OSError.

    A spool that has been empty counts from 0 again, so an earlier one may have had a damaged
    segment of the same number.
    """
    for number in count():
        again = f"-{number}" if number else ""
        kept = folder.with_name(f"{folder.name}-damaged-{segment.stem}{again}{segment.suffix}")
        if not kept.exists():
            break
        if filecmp.cmp(segment, kept, shallow=False):
            return kept
    try:
        os.link(segment, kept)
    except OSError:  # there are no hard links on a memory stick, say
        data = segment.read_bytes()
        os.close(put_file(kept, partial(write_fully, data=data), mode=0o600))
    return kept


def _of_this_machine(error: OSError) -> Misconfigured:
    """What to say where a transport cannot keep refused rows: the disk may be full of the spool."""
    reason = error.strerror or " ".join(str(error).split())
    return Misconfigured(
        f"a file beside the spool cannot be written: {reason}; free some space on its disk"
    )


def _batches(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Records in groups that a log takes at once."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if batch and size + len(record) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    if batch:
        yield batch


# Whose a spool is, and how far the other side has it: two files beside the segments.

_NUMBER = struct.Struct("<Q")
_CHECKED = struct.Struct("<QI")


class SentMark:
    """The number of the first record that the other side may lack.

    Written after each record, and not synced: it survives a kill of the process, and after a power
    cut it is an older one, or unreadable. Then records are sent again. It is never newer than the
    log, whose records are durable before they are sent.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sent"
        self._descriptor = -1

    def open(self, first: int, count: int) -> int:
        """Open the file; the number in it if it is from ``first`` to ``count``, else ``first``.

        Another number is of segments that somebody has removed, whose numbers begin anew. OSError.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = os.pread(self._descriptor, _CHECKED.size, 0)
        number = first
        if len(data) == _CHECKED.size:
            found, checksum = _CHECKED.unpack(data)
            if checksum == crc32(data[: _NUMBER.size]) and first <= found <= count:
                number = found
        with contextlib.suppress(OSError):  # a full disk: an older number sends more again
            self.write(number)
        return number

    def write(self, number: int) -> None:
        """Replace the number. OSError."""
        data = _NUMBER.pack(number)
        os.pwrite(self._descriptor, _CHECKED.pack(number, crc32(data)), 0)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)


class Addressee:
    """The other side that a spool's records are for, as text without secrets.

    Records that are left are for it alone: another side that got them would have another
    recording's rows, and this one would never get its own.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "to"

    def claim(self, name: str, *, records_left: bool) -> None:
        """Write the name down.

        Raises:
            ValueError: records are left, and they are for another side.
            OSError: the file cannot be read or written.
        """
        earlier = ""
        with contextlib.suppress(FileNotFoundError):
            earlier = self._path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
        if records_left and earlier and earlier != name:
            raise ValueError(
                f"its rows are for {earlier}, not for {name}: give this sink another spool, or "
                f"remove {self._path} if they are to go to {name}"
            )
        if earlier != name:
            text = f"{name}\n".encode()
            os.close(put_file(self._path, partial(write_fully, data=text), mode=0o600))

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
