"""Reading the records of a log, beside its writer or without one."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.files._backend import FileBackend, current_backend
from penstock.files._log.file_growth import FileGrowth
from penstock.files._log.log_file import read_identity
from penstock.files._log.log_format import (
    LogDamaged,
    LogIdentity,
    RecordParser,
)

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_PIECE = 256 << 10
_LARGE = 1 << 20
_COST_OF_RECORD = 2048  # as FileBackend.should_yield counts

Read = Callable[[int, int], Awaitable[bytes]]
"""Reads at most so many bytes at an offset of the log's file."""

More = Callable[[], Awaitable[bool]]
"""Waits until the file may have changed; False if no more is to come."""


async def read_log(path: StrOrBytesPath) -> AsyncGenerator[bytes, None]:
    """Iterate over the records of the log at ``path``, from the first one on, without its lock.

    For another process than the writer's, for a damaged log, and for a read-only file system. The
    file is not changed. The iteration ends when it reaches the end of the file. It leaves out a
    record that is being written at that moment, and a torn tail. While a writer has the log open,
    the last records may not be durable yet.

    Cancellation: at any record; the file is closed.

    Raises:
        NotALog: if the file holds something else.
        LogDamaged: at a damaged record that later commits follow; all records before it have been
            yielded.
        OSError: with the file's name.
    """
    async with aclosing(read_file_records(path)) as records:
        async for record in records:
            yield record


async def follow_log(path: StrOrBytesPath) -> AsyncGenerator[bytes, None]:
    """Iterate as :func:`read_log` does, and at the end wait for further records (``tail -f``).

    The kernel reports when the file changes (inotify(7)); nothing is polled. The writer may be
    another process, may be killed, and may open the log again meanwhile. The iteration ends when
    the file has been removed and all its records have been yielded. A network file system (NFS)
    does not report changes that other machines make.

    A record is yielded when it has been written completely, which may be before it is durable. So
    after a power cut, the program may have got records that the log has lost. In the writer's
    process, use :meth:`AppendLog.follow`, which yields durable records only.

    Cancellation: at any moment; the file is closed.

    Raises:
        NotALog, LogDamaged, OSError: as :func:`read_log` does. LogDamaged also if the file has
            become shorter than the records that were yielded.
    """
    with FileGrowth(os.fsdecode(path)) as growth:

        async def more(fd: int) -> bool:
            if os.fstat(fd).st_nlink == 0:
                return False
            await growth.wait()
            return True

        async with aclosing(read_file_records(path, more=more)) as records:
            async for record in records:
                yield record


def _size(fd: int) -> int:
    return os.fstat(fd).st_size


async def read_file_records(
    path: StrOrBytesPath,
    *,
    end: Callable[[int], int] = _size,
    may_be_torn: bool = True,
    more: Callable[[int], Awaitable[bool]] | None = None,
) -> AsyncGenerator[bytes, None]:
    """As :func:`read_records`, of a file that it opens; ``end`` and ``more`` get its descriptor.

    Raises:
        NotALog, LogDamaged, OSError: as :func:`read_log` does.
    """
    backend = current_backend()
    name = os.fsdecode(path)
    fd = await backend.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        while (identity := await backend.call(lambda: read_identity(fd, name))) is None:
            if more is None or not await more(fd):
                return

        def read(size: int, offset: int) -> Awaitable[bytes]:
            return backend.read(fd, size, offset)

        reading = read_records(
            backend,
            read,
            identity,
            name,
            end=lambda: end(fd),
            may_be_torn=may_be_torn,
            more=None if more is None else lambda: more(fd),
        )
        async with aclosing(reading) as records:
            async for record in records:
                yield record
    finally:
        # Closing a file that was only read does not wait for a disk.
        os.close(fd)


async def read_records(
    backend: FileBackend,
    read: Read,
    log: LogIdentity,
    path: str,
    *,
    end: Callable[[], int],
    may_be_torn: bool = False,
    more: More | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the records of a log's file up to ``end()``, which is called again when it is reached.

    Then end, or go on after ``more()``.

    Raises:
        LogDamaged: at bytes that are not records; with ``may_be_torn`` only if records of a later
            commit follow them.
    """
    parser = RecordParser(log)
    while True:
        async with aclosing(_read_to_end(backend, read, parser, end)) as records:
            async for record in records:
                yield record
        damage = parser.damage
        if end() < parser.end:
            raise LogDamaged(path, end(), "the file is shorter than it was")
        if may_be_torn:
            if damage is not None and await _later_commit_exists(read, log, parser.offset, end()):
                raise LogDamaged(path, parser.offset, damage)
        elif damage is not None or parser.buffered or parser.end < end():
            raise LogDamaged(path, parser.offset, damage or "the file is shorter than it was")
        if more is None or not await more():
            return
        # What followed the last whole record may have been cut off and written anew meanwhile.
        parser = RecordParser(log, parser.end, parser.commit)


async def _read_to_end(
    backend: FileBackend, read: Read, parser: RecordParser, end: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    position = parser.offset
    while parser.damage is None and (left := end() - position) > 0:
        if parser.needed > _LARGE:
            # Read into an object of its own and checked on a worker thread, without a copy.
            length = parser.large_payload
            begin = parser.offset + parser.header_size
            if end() < begin + length:
                return
            payload = await read(length, begin)
            if len(payload) < length:
                return
            position = begin + length
            checksum = await backend.call(functools.partial(crc32, payload))
            for record in parser.take_payload(payload, checksum):
                yield record
            continue
        data = await read(min(left, max(_PIECE, parser.needed)), position)
        if not data:
            return
        position += len(data)
        for record in parser.feed(data):
            if backend.should_yield(_COST_OF_RECORD):
                await backend.yield_now()
            yield record


async def _later_commit_exists(read: Read, log: LogIdentity, after: int, end: int) -> bool:
    position = after
    while position < end:
        data = await read(_PIECE, position)
        if log.find_header(data, position, after) is not None:
            return True
        if len(data) < log.header_size:
            return False
        position += len(data) - (log.header_size - 1)
    return False
