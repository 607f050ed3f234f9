"""A log in several files, the old ones of which are removed.

**Why a folder, and why a segment is named by its first record.** The files of ``logrotate`` are
renamed: ``log`` becomes ``log.1``, ``log.1`` becomes ``log.2``. A kill between two renames leaves a
gap or two files of one name, a reader that has listed the names reads a file twice or not at all,
and nothing tells whether a file is missing. Here no file is ever renamed. A rotation creates the
next file, whose name says which record is its first one, and nothing else. So each moment at which
a process can be killed is one of three: before the new file, with a new file that is empty (or
whose header is torn, which is the same), and after. The newest file is the one that is written, and
a reader knows by the names and by counting that no record is missing.

The previous segment is closed, so all its records are durable, before the next one accepts any:
a later record is never durable without an earlier one.

*Rejected:* a file that lists the segments. It is a second truth beside the folder, and must be
replaced durably with each rotation. *Rejected:* time stamps as names. Clocks are set back.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import warnings
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from anyio import Event, Lock

from penstock._durable_files import sync_folder
from penstock.files._backend import current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._log.append_log import AppendLog
from penstock.files._log.log_file import LogLocked, Recovered
from penstock.files._log.log_format import LogError
from penstock.files._log.log_reader import read_file_records
from penstock.files._not_copied import refuse_to_copy

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath

_NAME = re.compile(r"(\d{20})\.log")


class SegmentedLog:
    """An :class:`AppendLog` that is divided into files, so that old records can be removed.

    ::

        async with SegmentedLog("orders", keep_size=10 << 30) as log:
            number = await log.append(b"an order")  # durable from here on

    ``folder`` holds the segments, each an append log named by the number of its first record:
    ``00000000000000001000.log``. The last one is written. When it has ``segment_size`` bytes, or is
    ``segment_age`` seconds old, it is closed and the next one begun. Records keep their numbers,
    even when earlier ones are removed.

    Retention: after each rotation and when the log is opened, segments are removed from the oldest
    one on while all together have more than ``keep_size`` bytes, or while the oldest one was last
    written more than ``keep_age`` seconds ago. The segment that is written is never removed.

    Promises, cancellation and errors of the appends are those of :class:`AppendLog`; a kill at any
    moment, even during a rotation, loses no acknowledged record and repeats none. One process has
    the log open at a time. Not thread-safe.

    Args:
        folder: the folder of the segments; created if it does not exist. Its parent must exist.
        segment_size: bytes after which the next segment is begun. Records that are appended at the
            same time go to one segment, which may exceed this size by them.
        segment_age: seconds from the creation of a segment after which the next append begins
            another one, if the segment has records. After a restart, from the segment's last
            write. None for no limit.
        keep_size: the largest size of all segments together, in bytes; None keeps everything.
        keep_age: seconds from the last write of a segment; None keeps everything.
        mode: permissions of the files, less the umask.
    """

    def __init__(
        self,
        folder: StrOrBytesPath,
        *,
        segment_size: int = 64 << 20,
        segment_age: float | None = None,
        keep_size: int | None = None,
        keep_age: float | None = None,
        mode: int = 0o666,
    ) -> None:
        for name, value in {
            "segment_size": segment_size,
            "segment_age": segment_age,
            "keep_size": keep_size,
            "keep_age": keep_age,
        }.items():
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}; it must be more than 0")
        self._folder = os.fsdecode(folder)
        self._segment_size = segment_size
        self._segment_age = segment_age
        self._keep_size = keep_size
        self._keep_age = keep_age
        self._mode = mode
        self._segments: list[int] = []  # the numbers of their first records
        self._log: AppendLog | None = None  # the last segment
        self._began = 0.0  # when it was created, by the wall clock, as the times of files are
        self._lock_fd = -1
        self._rotating = Lock()  # fair: appends that wait for a rotation keep their order
        self._rotated: Event | None = None  # set by the next rotation, and by close
        self._closed = False

    @property
    def folder(self) -> str:
        """The folder as it was given."""
        return self._folder

    @property
    def first(self) -> int:
        """The number of the oldest record that is kept."""
        return self._segments[0] if self._segments else 0

    @property
    def count(self) -> int:
        """The number of the next record. Removed records are counted too."""
        return self._segments[-1] + self._open_log.count if self._segments else 0

    @property
    def recovered(self) -> Recovered:
        """What opening the last segment found, and whether a torn tail was cut off."""
        return self._open_log.recovered

    @property
    def segments(self) -> list[str]:
        """The paths of the segments, the oldest first."""
        return [self._path(first) for first in self._segments]

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._closed

    async def open(self) -> Self:
        """Open the log, unless it is open; ``async with`` does the same.

        The last segment is read and checked, on a worker. Cancellation: waits for the worker.

        Raises:
            LogLocked: if another process, or another object of this one, has the log open.
            NotALog, LogDamaged: as for :meth:`AppendLog.open`, for the last segment.
            OSError: with the name of the folder or the file.
        """
        async with self._rotating:
            if self._closed:
                raise LogError(self._folder, "the log is closed")
            if self._log is None:
                await run_whole(self._open)
        return self

    async def append(self, data: ReadableBuffer) -> int:
        """As :meth:`AppendLog.append`. The number counts the records that were removed too."""
        first, log = await self._segment()
        return first + await log.append(data)

    async def append_many(self, records: Iterable[ReadableBuffer]) -> range:
        """As :meth:`AppendLog.append_many`. A batch is in one segment."""
        batch = list(records)
        first, log = await self._segment()
        numbers = await log.append_many(batch)
        return range(first + numbers.start, first + numbers.stop)

    async def rotate(self) -> None:
        """Begin the next segment now, unless the last one has no record. Then apply retention.

        Cancellation: waits for the step that has begun.

        Raises:
            LogError: if the log is not open.
            OSError: if the next segment cannot be created. Each append tries it again.
        """
        async with self._rotating:
            if self._open_log.count:
                await run_whole(self._rotate)

    async def remove_before(self, number: int) -> None:
        """Remove the segments that hold only records before ``number``.

        For a program that has processed them. The segment that is written is never removed. A
        segment that cannot be removed stays until the next call, with a RuntimeWarning.

        Cancellation: waits for the removal that has begun.

        Raises:
            LogError: if the log is not open.
        """
        if self._closed or self._log is None:
            raise LogError(self._folder, f"the log is {'closed' if self._closed else 'not open'}")
        if bisect_right(self._segments, number) > 1:
            async with self._rotating:
                await run_whole(partial(self._remove_before, number))

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Iterate over the durable records, from the oldest one that is kept.

        Records that become durable before the iteration ends are included.

        Raises:
            LogDamaged: if a segment is damaged.
            LogError: if the log is not open, if a segment is missing, or if retention has removed
                records that were still to come.
        """
        return self._records(wait=False)

    def follow(self) -> AsyncGenerator[bytes, None]:
        """Iterate as ``async for record in log`` does, and wait for further records.

        The iteration ends when the log is closed. Cancellation: at any moment. Raises as the
        iteration does.
        """
        return self._records(wait=True)

    async def close(self) -> None:
        """Wait for the appends that have begun, close the files, release the lock. Idempotent.

        Cancellation: raised when the log is closed.
        """
        self._closed = True
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

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self)

    def __del__(self) -> None:
        if getattr(self, "_lock_fd", -1) >= 0:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:  # also where the warning is an error
                os.close(self._lock_fd)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not open" if self._log is None else "open"
        return f"<SegmentedLog {self._folder!r} {state}, {len(self._segments)} segments>"

    @property
    def _open_log(self) -> AppendLog:
        if self._log is None:
            raise LogError(self._folder, "the log has not been opened yet")
        return self._log

    def _path(self, first: int) -> str:
        return os.path.join(self._folder, f"{first:020d}.log")

    # ---- opening and closing ----------------------------------------------------------------

    async def _open(self, stop: Stop) -> None:
        segments = await stop.step(current_backend().call(self._lock_and_list))
        await self._open_segment(segments or [0])

    def _lock_and_list(self) -> list[int]:
        try:
            os.mkdir(self._folder)
            sync_folder(self._folder)
        except FileExistsError:
            pass
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = sorted(
                int(name[1]) for each in os.listdir(fd) if (name := _NAME.fullmatch(each))
            )
        except BaseException as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                raise LogLocked(
                    self._folder, "another writer has this log open; close it there first"
                ) from error
            raise
        self._lock_fd = fd
        return found

    async def _open_segment(self, segments: list[int]) -> None:
        """Open the last of ``segments`` for appending, and remove what need not be kept."""
        path = self._path(segments[-1])
        try:
            log = await AppendLog(path, mode=self._mode)
        except BaseException:
            if self._log is None:
                os.close(self._lock_fd)
                self._lock_fd = -1
            raise
        self._log, self._segments = log, segments
        self._began = os.fstat(log.fileno()).st_mtime if log.count else time.time()
        if self._keep_size is not None or self._keep_age is not None:
            kept = await current_backend().call(lambda: self._remove_old(list(segments)))
            self._segments = kept

    async def _remove_before(self, number: int, _: Stop) -> None:
        segments = list(self._segments)
        many = bisect_right(segments, number) - 1
        if many > 0:
            remove = partial(self._remove_first, segments, many)
            self._segments = await current_backend().call(remove)

    def _remove_old(self, segments: list[int]) -> list[int]:
        """Remove what need not be kept; return what is left."""
        files = [os.stat(self._path(first)) for first in segments]
        total = sum(file.st_size for file in files)
        oldest = time.time() - self._keep_age if self._keep_age is not None else -1.0
        most = self._keep_size if self._keep_size is not None else total
        many = 0
        for file in files[:-1]:
            if total <= most and file.st_mtime >= oldest:
                break
            total -= file.st_size
            many += 1
        return self._remove_first(segments, many)

    def _remove_first(self, segments: list[int], many: int) -> list[int]:
        """Remove the first ``many`` segments; return what is left."""
        removed = 0
        for first in segments[:many]:
            path = self._path(first)
            try:
                os.unlink(path)
            except OSError as error:
                # The records are safe, so no append fails. The next rotation tries it again.
                warnings.warn(f"{path} could not be removed: {error}", RuntimeWarning, stacklevel=2)
                break
            removed += 1
        if removed:
            sync_folder(self._path(0))
        return segments[removed:]

    async def _close(self, _: Stop) -> None:
        async with self._rotating:
            if self._log is not None:
                await self._log.close()
            self._wake_followers()
            fd, self._lock_fd = self._lock_fd, -1
            if fd >= 0:
                os.close(fd)

    # ---- appending --------------------------------------------------------------------------

    async def _segment(self) -> tuple[int, AppendLog]:
        """Return the number of the last segment's first record, and that segment.

        The caller appends before anything else runs, so no rotation comes between.
        """
        if self._log is None and not self._closed:
            await self.open()
        if self._rotating.locked() or self._is_due():
            async with self._rotating:
                if self._is_due():
                    await run_whole(self._rotate)
        if self._closed:
            raise LogError(self._folder, "the log is closed")
        return self._segments[-1], self._open_log

    def _is_due(self) -> bool:
        log = self._open_log
        if self._closed or log.failed:
            return False
        if log.closed:  # the next segment could not be created
            return True
        age = self._segment_age
        old = age is not None and time.time() - self._began >= age
        return log.count > 0 and (log.size >= self._segment_size or old)

    async def _rotate(self, _: Stop) -> None:
        log = self._open_log
        await log.close()  # waits until all its records are durable
        following = self._segments[-1] + log.count
        if following != self._segments[-1]:
            await self._open_segment([*self._segments, following])
        self._wake_followers()

    # ---- reading ----------------------------------------------------------------------------

    async def _records(self, *, wait: bool) -> AsyncGenerator[bytes, None]:
        if self._closed or self._log is None:
            raise LogError(self._folder, f"the log is {'closed' if self._closed else 'not open'}")
        first = number = self._segments[0]
        while True:
            async with aclosing(self._segment_records(first, wait)) as records:
                async for record in records:
                    yield record
                    number += 1
            position = bisect_right(self._segments, first)
            if position == len(self._segments):
                return
            first = self._segments[position]
            if number != first:
                what = "removed by retention" if position == 0 else "missing"
                raise LogError(self._folder, f"the records {number} to {first - 1} are {what}")

    def _segment_records(self, first: int, wait: bool) -> AsyncGenerator[bytes, None]:
        """Iterate over the records of one segment, until it is closed and read to its end."""
        seen = 0  # of the segment's bytes, when they were last read to their end
        was_last = True

        def end(fd: int) -> int:
            log = self._open_log
            return log.size if first == self._segments[-1] else os.fstat(fd).st_size

        async def more(fd: int) -> bool:
            nonlocal seen, was_last
            while True:
                if first != self._segments[-1]:
                    # It may have grown after it was read, and before the next one was begun.
                    was_last, before = False, was_last
                    return before
                log = self._open_log
                if log.size != seen:
                    seen = log.size
                    return True
                if not wait or self._closed:
                    return False
                if log.closed:  # a rotation is under way
                    self._rotated = self._rotated or Event()
                    await self._rotated.wait()
                else:
                    await log.until_changed()

        return read_file_records(self._path(first), end=end, may_be_torn=False, more=more)

    def _wake_followers(self) -> None:
        if self._rotated is not None:
            self._rotated.set()
            self._rotated = None
