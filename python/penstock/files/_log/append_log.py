"""A log of records, each durable when its append has returned."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable
from contextlib import aclosing
from copy import copy
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self
from zlib import crc32

from anyio import Event

from penstock.files._backend import FileBackend, current_backend
from penstock.files._detached import Stop, Stopped, run_whole, start_detached
from penstock.files._log.log_file import OpenedLog, Recovered, open_log_file
from penstock.files._log.log_format import (
    MAX_BATCH,
    MAX_PAYLOAD,
    LogDamaged,
    LogError,
    LogIdentity,
)
from penstock.files._log.log_reader import More, read_records
from penstock.files._not_copied import refuse_to_copy

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath

# Waiting appends are written together, up to this many bytes, so that a commit is not too long.
_COMMIT_BYTES = 16 << 20

_LARGE = 256 << 10
"""Larger payloads are written without copying; smaller ones are joined."""
_SLICE = 1024
"""Records that are encoded between two checks of the clock."""
_COST_OF_SLICE = 2048 * _SLICE


class LogFailed(LogError):
    """The log accepts no more appends: a sync failed, or a failed write could not be undone.

    ``__cause__`` is the error. After a failed sync the content of the disk is unknown, and a second
    sync would succeed without effect, because the kernel drops the failed pages. So no append is
    retried: close the log, check the disk, and open the log again. Afterwards the log may contain
    some, none or all of the records whose appends raised this, always the first ones.
    """


class _Record:
    __slots__ = ("checksum", "continued", "number", "payload")

    def __init__(self, payload: bytes, *, continued: bool = False) -> None:
        self.payload = payload
        self.continued = continued  # by the next record of its batch
        # The checksum of a large payload is computed on a worker thread when its commit begins.
        self.checksum = crc32(payload) if len(payload) <= _LARGE else -1
        self.number = -1


class _Commit:
    """Records that become durable together, and the event that their appends wait for."""

    __slots__ = ("done", "error", "records", "size", "started")

    def __init__(self) -> None:
        # An ordered set: a record is removed in constant time.
        self.records: dict[_Record, None] = {}
        self.size = 0
        self.started = False
        self.done = Event()
        self.error: Exception | None = None


class AppendLog:
    """An append-only file of records that survives a crash at any moment.

    ::

        async with AppendLog("orders.log") as log:
            async for record in log:
                replay(record)
            await log.append(b"an order")  # durable from here on

    ``await log.append(data)`` returns when the record is on the disk. Appends that run at the same
    time are committed together, with one write and one ``fdatasync`` for all of them, so 200 tasks
    that append take little longer than one.

    After a crash, even after ``kill -9``, opening the log finds every record whose append had
    returned, complete and in order. A record that was being written may be found too, but never a
    part of one: an incomplete record at the end of the file is cut off, and ``log.recovered``
    reports it. Damage anywhere else raises :class:`LogDamaged` and changes nothing.

    The log is opened by ``async with``, by ``await AppendLog(path)``, or by its first append. It
    has one writer at a time, by an exclusive ``flock(2)``; a second one gets :class:`LogLocked`.
    Readers need no lock: :func:`read_log`. A link at ``path`` is followed.

    Order: records are stored in the order in which the calls of ``append`` began.

    Cancellation of an append returns at once. If the record had not been handed to the kernel yet,
    it is not written; otherwise it is written completely. It is never written twice.

    Errors of an append: OSError if the write failed, for instance because the disk is full. The
    file is then unchanged, durably, and the log remains usable. :class:`LogFailed` if the sync
    failed, or if a failed write could not be undone. The log can then only be closed.

    Not thread-safe: a log belongs to one running loop. A process that was forked while a log is
    open must not use it.

    Args:
        path: the file; created if it does not exist.
        mode: permissions of a file that is created, less the umask.
    """

    def __init__(self, path: StrOrBytesPath, *, mode: int = 0o666) -> None:
        self._path = os.fsdecode(path)
        self._mode = mode
        self._backend: FileBackend | None = None
        self._fd = -1
        self._identity: LogIdentity | None = None
        self._header_size = 0
        self._pid = 0
        self._recovered: Recovered | None = None
        self._end = 0
        self._count = 0
        self._commits: deque[_Commit] = deque()
        self._opening: Event | None = None
        self._commits_done: Event | None = None  # there while a committer runs
        self._failure: Exception | None = None
        self._closed = False
        self._changed: Event | None = None  # set by the next commit, and when the log is closed

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._path

    @property
    def recovered(self) -> Recovered:
        """What opening the log found, and whether a torn tail was cut off."""
        if self._recovered is None:
            raise LogError(self._path, "the log has not been opened yet")
        return self._recovered

    @property
    def count(self) -> int:
        """The number of durable records."""
        return self._count

    @property
    def size(self) -> int:
        """The size of the durable records and of the file's header, in bytes."""
        return self._end

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._closed

    @property
    def failed(self) -> bool:
        """Whether the log accepts no more appends, see :class:`LogFailed`."""
        return self._failure is not None

    def fileno(self) -> int:
        """The descriptor of the open file. Raises LogError if the log is not open."""
        self._check_readable()
        return self._fd

    async def open(self) -> Self:
        """Open the log, unless it is open; ``async with`` and ``await log`` do the same.

        The whole file is read and checked, on a worker.

        Cancellation: waits for the worker. The log is then closed, and its file repaired or
        unchanged.

        Raises:
            LogLocked: if another writer has it open.
            NotALog: if the file holds something else.
            LogDamaged: if acknowledged records are damaged.
            OSError: with the file's name.
        """
        while self._fd < 0:
            if self._closed:
                raise LogError(self._path, "the log is closed")
            if self._opening is not None:
                await self._opening.wait()
                continue
            self._opening = Event()
            try:
                await run_whole(self._open)
            finally:
                self._opening.set()
                self._opening = None
        return self

    async def append(self, data: ReadableBuffer) -> int:
        """Append one record; return its number, counted from 0, once it is durable.

        Args:
            data: the record's bytes, from 0 to 1 GiB. They are copied, unless ``data`` is a bytes
                object.

        Raises:
            OSError: if the write failed. The record is not in the log, not even after a power cut.
            LogFailed: if the sync failed, now or earlier. It is unknown whether the log has the
                record when it is opened again.
            LogError: if the log is closed.
            ValueError: if the record is too long.
        """
        if self._fd < 0:
            await self.open()
        record = _Record(self._checked(data))
        await self._commit_records([record])
        return record.number

    async def append_many(self, records: Iterable[ReadableBuffer]) -> range:
        """Append several records as one batch; return their numbers once all are durable.

        The batch is stored as a whole: after a crash or a failed write, the log has all of its
        records or none. They have consecutive numbers. Format 1 has no batches: in such a log, a
        crash may leave the first records of one.

        Cancellation: as for :meth:`append`, for all records together.

        Args:
            records: as in :meth:`append`; together at most 64 MiB, with 28 bytes for each record.

        Raises:
            OSError, LogFailed, LogError: as :meth:`append` does.
            ValueError: if a record, or the batch, is too long. Nothing is written.
        """
        if self._fd < 0:
            await self.open()
        payloads = [self._checked(data) for data in records]
        size = sum(map(len, payloads)) + self._header_size * len(payloads)
        if size > MAX_BATCH:
            raise ValueError(
                f"a batch of {len(payloads)} records takes {size} bytes, more than {MAX_BATCH};"
                " append it in parts"
            )
        if not payloads:
            return range(self._count, self._count)
        last = len(payloads) - 1
        batch = [
            _Record(payload, continued=number < last) for number, payload in enumerate(payloads)
        ]
        await self._commit_records(batch)
        return range(batch[0].number, batch[-1].number + 1)

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """Iterate over the durable records from the first one on, and wait for further ones.

        The iteration ends when the log is closed, at the record that it has reached. Several
        iterations and appends may run at the same time. From another process: :func:`follow_log`.

        Cancellation: at any moment.

        Raises:
            LogDamaged: if the file has been damaged since it was opened.
            LogError: if the log is not open.
        """
        self._check_readable()

        read = 0

        async def more() -> bool:
            nonlocal read
            if self._end == read:
                await self.until_changed()
            read = self._end
            return not self._closed

        try:
            async with aclosing(self._records(more)) as records:
                async for record in records:
                    yield record
        except LogError as error:
            if not self._closed or isinstance(error, LogDamaged):
                raise

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the durable records from the first one on.

        Records that become durable before the iteration ends are included. Several iterations and
        appends may run at the same time.

        Raises:
            LogDamaged: if the file has been damaged since it was opened.
            LogError: if the log is not open, or is closed meanwhile.
        """
        return self._records()

    async def close(self) -> None:
        """Wait for the appends that have begun, close the file, release the lock. Idempotent.

        Cancellation: raised when the log is closed.
        """
        self._closed = True
        self._wake_followers()
        if self._fd >= 0 or self._opening is not None:
            await run_whole(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.open().__await__()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not open" if self._fd < 0 else "open"
        if self._failure is not None and not self._closed:
            state = "failed"
        return f"<AppendLog {self._path!r} {state}, {self._count} records>"

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self)

    def __del__(self) -> None:
        # A running committer refers to the log, so nothing is in flight here.
        if getattr(self, "_fd", -1) >= 0:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:  # also where the warning is an error
                os.close(self._fd)

    async def _open(self, stop: Stop) -> None:
        backend = current_backend()
        opened: OpenedLog = await stop.step(
            backend.call(lambda: open_log_file(self._path, self._mode))
        )
        if stop.requested or self._closed:
            await backend.close(opened.fd)
            if self._closed:
                raise LogError(self._path, "the log was closed while it was being opened")
            raise Stopped
        self._backend = backend
        self._identity = opened.identity
        self._header_size = opened.identity.header_size
        self._recovered = opened.recovered
        self._end = opened.recovered.size
        self._count = opened.recovered.records
        self._pid = os.getpid()
        self._fd = opened.fd

    async def _close(self, stop: Stop) -> None:
        while self._opening is not None:
            await self._opening.wait()
        while self._commits_done is not None:
            await self._commits_done.wait()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            assert self._backend is not None
            await self._backend.close(fd)

    def _checked(self, data: ReadableBuffer) -> bytes:
        if self._closed:
            raise LogError(self._path, "the log is closed")
        if self._failure is not None:
            raise copy(self._failure) from self._failure.__cause__
        if self._pid != os.getpid():
            raise LogError(self._path, "the log was opened before a fork; open it in one process")
        if isinstance(data, str):
            raise TypeError("a record is bytes, not str; encode it")
        payload = data if type(data) is bytes else bytes(memoryview(data))
        if len(payload) > MAX_PAYLOAD:
            raise ValueError(
                f"a record of {len(payload)} bytes is longer than {MAX_PAYLOAD}; append it in parts"
            )
        return payload

    async def _commit_records(self, records: list[_Record]) -> None:
        """Wait until the records, of one commit, are durable."""
        size = sum(self._header_size + len(record.payload) for record in records)
        commit = self._joinable_commit(size)
        commit.records.update(dict.fromkeys(records))
        if self._commits_done is None:
            self._commits_done = Event()
            start_detached(self._commit_all)
        try:
            await commit.done.wait()
        except BaseException:
            if not commit.started:
                for record in records:
                    commit.records.pop(record, None)
            raise
        if commit.error is not None:
            # Each append raises a copy, so that tracebacks do not accumulate on one exception.
            raise copy(commit.error) from commit.error.__cause__

    def _joinable_commit(self, size: int) -> _Commit:
        """Return the commit for further bytes: the last one, unless it has begun or is full."""
        if self._commits:
            commit = self._commits[-1]
            if commit.size + size <= _COMMIT_BYTES:
                commit.size += size
                return commit
        commit = _Commit()
        commit.size = size
        self._commits.append(commit)
        return commit

    async def _commit_all(self) -> None:
        """Commit until no record waits. Only this writes."""
        assert self._commits_done is not None
        try:
            while self._commits:
                commit = self._commits.popleft()
                commit.started = True
                if commit.records:
                    if self._failure is None:
                        await self._commit(commit)
                    else:
                        commit.error = self._failure
                commit.done.set()
        except BaseException as error:
            # For instance, the loop's run ends. What was written is unknown.
            self._fail("writing was cut short", error)
            for left in (commit, *self._commits):
                left.error = self._failure
                left.done.set()
            self._commits.clear()
            if not isinstance(error, Exception):
                raise
        finally:
            self._commits_done.set()
            self._commits_done = None

    async def _commit(self, commit: _Commit) -> None:
        assert self._backend is not None
        records = list(commit.records)
        try:
            end = await self._write(records)
        except OSError as error:
            # For instance, the disk is full. Truncating restores the log.
            error.filename = error.filename or self._path
            commit.error = await self._take_back(error)
            return
        try:
            await self._backend.fdatasync(self._fd)
        except OSError as error:
            self._fail("the disk did not confirm a write", error)
            commit.error = await self._take_back(error)
            return
        for number, record in enumerate(records, self._count):
            record.number = number
        self._count += len(records)
        self._end = end
        self._wake_followers()

    async def until_changed(self) -> None:
        """Wait for the next commit, or until the log is closed.

        Cancellation: raised at once.
        """
        if not self._closed:
            self._changed = self._changed or Event()
            await self._changed.wait()

    def _wake_followers(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _write(self, records: list[_Record]) -> int:
        """Write a commit; return its end in the file."""
        assert self._backend is not None and self._identity is not None
        backend, log = self._backend, self._identity
        end = place = self._end  # of what is written, and of the next record
        parts: list[bytes] = []
        for begin in range(0, len(records), _SLICE):
            if begin and backend.should_yield(_COST_OF_SLICE):
                await backend.yield_now()
            for record in records[begin : begin + _SLICE]:
                length = len(record.payload)
                large = length > _LARGE
                if large:
                    record.checksum = await backend.call(partial(crc32, record.payload))
                header = log.encode_header(
                    self._end, place, length, record.checksum, continued=record.continued
                )
                place += len(header) + length
                if not large:
                    parts += (header, record.payload)
                    continue
                for data in (b"".join([*parts, header]), record.payload):
                    await backend.write(self._fd, data, end)
                    end += len(data)
                parts = []
        if parts:
            data = b"".join(parts)
            await backend.write(self._fd, data, end)
            end += len(data)
        return end

    async def _take_back(self, cause: OSError) -> Exception:
        """Truncate what a failed commit left, durably; return the exception of its appends.

        Durably, because the kernel may have written those bytes to the disk already. Until the
        truncation is on the disk, a power cut brings back records whose appends have failed. And
        the next commit begins at the same offset: after a torn write the old bytes could continue
        it.
        """
        assert self._backend is not None
        try:
            await self._backend.truncate(self._fd, self._end)
            await self._backend.fdatasync(self._fd)
        except OSError as error:
            cause.add_note(f"Taking back what it left failed as well: {error}")
            self._fail("a write failed, and its beginning could not be cut off", cause)
        return cause if self._failure is None else self._failure

    def _fail(self, message: str, cause: BaseException) -> None:
        if self._failure is None:
            self._failure = LogFailed(
                self._path, f"{message}: {cause!r}; close the log and open it again"
            )
            self._failure.__cause__ = cause

    async def _records(self, more: More | None = None) -> AsyncGenerator[bytes, None]:
        self._check_readable()
        assert self._backend is not None and self._identity is not None
        reading = read_records(
            self._backend, self._read, self._identity, self._path, end=lambda: self._end, more=more
        )
        async with aclosing(reading) as records:
            async for record in records:
                yield record

    async def _read(self, size: int, offset: int) -> bytes:
        self._check_readable()
        assert self._backend is not None
        data = await self._backend.read(self._fd, size, offset)
        # If the log was closed meanwhile, the descriptor may have been that of another file.
        self._check_readable()
        return data

    def _check_readable(self) -> None:
        if self._fd < 0:
            state = "closed" if self._closed else "not open"
            raise LogError(self._path, f"the log is {state}")
