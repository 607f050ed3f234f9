"""Reading the records of a log, beside its writer or without one."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.files._backend import FileBackend, current_backend
from penstock.files._log.log_file import read_marker
from penstock.files._log.log_format import (
    FILE_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    LogDamaged,
    RecordParser,
    find_later_commit,
)

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

__all__ = ["read_log", "read_records"]

_PIECE = 256 << 10
_LARGE = 1 << 20
_COST_OF_RECORD = 2048  # as FileBackend.should_yield counts

Read = Callable[[int, int], Awaitable[bytes]]
"""Reads at most so many bytes at an offset of the log's file."""


async def read_log(path: StrOrBytesPath) -> AsyncIterator[bytes]:
    """Iterate over the records of the log at ``path``, from the first one on, without its lock.

    For another process than the writer's, for a damaged log, and for a read-only file system. The
    file is not changed. The iteration ends at the end of the file, when it arrives there. A record
    that is being written at that moment, or a torn tail, is left out. Beside a writer the last
    records may not be durable yet.

    Cancellation: at any record; the file is closed.

    Raises:
        NotALog: if the file holds something else.
        LogDamaged: at a damaged record that later commits follow; all records before it have been
            yielded.
        OSError: with the file's name.
    """
    backend = current_backend()
    name = os.fsdecode(path)
    fd = await backend.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        marker = await backend.call(lambda: read_marker(fd, name))
        if marker is None:
            return

        def read(size: int, offset: int) -> Awaitable[bytes]:
            return backend.read(fd, size, offset)

        async for record in read_records(
            backend, read, marker, name, end=lambda: os.fstat(fd).st_size, may_be_torn=True
        ):
            yield record
    finally:
        # Closing a file that was only read does not wait for a disk.
        os.close(fd)


async def read_records(
    backend: FileBackend,
    read: Read,
    marker: bytes,
    path: str,
    *,
    end: Callable[[], int],
    may_be_torn: bool = False,
) -> AsyncIterator[bytes]:
    """Yield the records of a log's file up to ``end()``, which is called again when it is reached.

    Raises:
        LogDamaged: at bytes that are no record; with ``may_be_torn`` only if records of a later
            commit follow them.
    """
    parser = RecordParser(marker)
    position = FILE_HEADER_SIZE
    while parser.damage is None and (left := end() - position) > 0:
        if parser.needed > _LARGE:
            # Read into an object of its own and checked on a worker thread, without a copy.
            length = parser.large_payload
            begin = parser.offset + RECORD_HEADER_SIZE
            payload = await read(min(length, end() - begin), begin)
            position = begin + len(payload)
            if len(payload) < length:
                break
            if parser.take_payload(await backend.call(functools.partial(crc32, payload))):
                yield payload
            continue
        data = await read(min(left, max(_PIECE, parser.needed)), position)
        if not data:
            break
        position += len(data)
        for record in parser.feed(data):
            if backend.should_yield(_COST_OF_RECORD):
                await backend.yield_now()
            yield record
    damage = parser.damage
    if may_be_torn:
        if damage is not None and await _later_commit_exists(read, marker, parser.offset, end()):
            raise LogDamaged(path, parser.offset, damage)
    elif damage is not None or parser.buffered or position < end():
        raise LogDamaged(path, parser.offset, damage or "the file is shorter than it was")


async def _later_commit_exists(read: Read, marker: bytes, after: int, end: int) -> bool:
    position = after
    while position < end:
        data = await read(_PIECE, position)
        if find_later_commit(marker, data, after) is not None:
            return True
        if len(data) < RECORD_HEADER_SIZE:
            return False
        position += len(data) - (RECORD_HEADER_SIZE - 1)
    return False
