"""Opening a log's file: lock it, check every byte, cut off a torn tail.

These are blocking functions for a worker thread: a log is opened once, and each step needs the
previous one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock._durable_files import sync_folder
from penstock._torn_end import Cut, cut_end
from penstock.files._log.log_format import (
    FILE_HEADER_SIZE,
    LogDamaged,
    LogError,
    LogIdentity,
    NotALog,
    RecordHeader,
    RecordParser,
    encode_file_header,
    is_torn_file_header,
    new_identity,
    parse_file_header,
)

_PIECE = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATIENCE = 1.0
_PATIENCE_WITH_THE_DEAD = 10.0


class LogLocked(LogError):
    """Another writer has the log open."""


@dataclass(frozen=True)
class Recovered:
    """What opening a log found.

    Attributes:
        records: complete records: all that were acknowledged, and perhaps some that were written
            but not acknowledged when their writer ended.
        size: bytes of those with the file's header; the file ends there now.
        torn: bytes that were cut off after them, left by a write that was never acknowledged; 0
            after an orderly end.
        reason: why the bytes that were cut off are not records; empty if there are none.
        kept_in: the file beside the log that has those bytes now, if there are any.
    """

    records: int
    size: int
    torn: int = 0
    reason: str = ""
    kept_in: Path | None = None


@dataclass(frozen=True)
class OpenedLog:
    """An open and locked log's descriptor, its identity, and what was found."""

    fd: int
    identity: LogIdentity
    recovered: Recovered


def open_log_file(path: str, mode: int) -> OpenedLog:
    """Open or create the log at ``path`` for appending, and repair it after a crash.

    When it returns, the reported records, the truncation and the file's name are durable.

    Raises:
        LogLocked: if another writer, in this process or another one, has it open. The lock of a
            killed writer is waited for.
        NotALog: if the file holds something else; it is unchanged.
        LogDamaged: if acknowledged records are damaged; the file is unchanged.
        OSError: with the file's name.
    """
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        fd = os.open(path, flags, mode)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise NotALog(
                    path, "is not a regular file; a log needs one, which can be truncated"
                )
            _lock(fd, path)
            # Between the opening and the lock another file may have taken the name.
            if _is_at(path, status):
                identity, recovered = _recover(fd, path)
                sync_folder(os.path.realpath(path))  # of the file itself, if the path is a link
                return OpenedLog(fd, identity, recovered)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):
                # Errors of calls on a descriptor do not have the name.
                error.filename = error.filename or path
            raise
        os.close(fd)


def read_identity(fd: int, path: str) -> LogIdentity | None:
    """Return the identity of the log open as ``fd``; None if its creation was interrupted.

    Raises:
        NotALog: if the file holds something else.
    """
    # One byte more than a header shows whether anything follows it.
    head = os.pread(fd, FILE_HEADER_SIZE + 1, 0)
    identity = parse_file_header(head)
    if identity is None and not is_torn_file_header(head):
        raise NotALog(
            path,
            "does not begin with the header of a Penstock log of format 1 or 2; nothing was "
            "changed. If it was"
            f" a log, copy its records to a new one: penstock log salvage {path} --to NEW",
        )
    return identity


def _lock(fd: int, path: str) -> None:
    waited, pause = 0.0, 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if waited >= _patience(os.fstat(fd)):
                raise LogLocked(
                    path,
                    "another writer has this log open; close it there first."
                    " To read while another program writes, use read_log()",
                ) from error
        else:
            return
        time.sleep(pause)
        waited += pause
        pause = min(2 * pause, 0.05)


def _patience(status: os.stat_result) -> float:
    """Return how many seconds to wait for a lock that is held.

    If a writer is killed while io_uring works for it, the kernel closes the file, and releases the
    lock, a moment after the process has gone.
    """
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks") as locks:
            # "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF", proc(5)
            holders = [line.split()[4] for line in locks if f" {place} " in line]
        for holder in holders:
            with open(f"/proc/{holder}/stat") as stat_file:
                # The state follows the name, which may hold any character.
                if stat_file.read().rpartition(")")[2].split()[0] not in "ZX":
                    return 0.0
    except FileNotFoundError:
        return _PATIENCE_WITH_THE_DEAD
    except (OSError, IndexError):
        return _PATIENCE
    # A holder of another container has no number here, and Btrfs has other device numbers here.
    return _PATIENCE_WITH_THE_DEAD if holders else _PATIENCE


def _is_at(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except FileNotFoundError:
        return False


def _recover(fd: int, path: str) -> tuple[LogIdentity, Recovered]:
    size = os.fstat(fd).st_size
    identity = read_identity(fd, path)
    if identity is None:
        identity = new_identity()
        header = encode_file_header(identity)
        os.ftruncate(fd, 0)
        written = os.pwrite(fd, header, 0)
        if written != len(header):
            # A full disk can cut even this short; the next opening recognises that.
            raise LogError(path, f"only {written} bytes of the file's header could be written")
        os.fsync(fd)
        torn_reason = "the creation of the log was cut off" if size else ""
        return identity, Recovered(0, FILE_HEADER_SIZE, size, torn_reason)
    parser = RecordParser(identity)
    for _ in feed_file(fd, parser, size):
        pass
    end, count = parser.end, parser.count
    if parser.damage is not None:
        damaged_at = parser.offset
        if find_header(fd, identity, damaged_at, size, after=damaged_at) is not None:
            raise LogDamaged(path, damaged_at, parser.damage)
    reason = ""
    cut: Cut | None = None
    if end < size:
        reason = parser.damage or (
            "the last batch is not complete" if parser.offset > end else _INCOMPLETE
        )
        cut = _cut(fd, path, end)
    # Also if nothing was cut: records of a writer that was killed between its write and its sync
    # are in the page cache only, but the next commit implies that all before it is durable.
    os.fsync(fd)
    if count:
        on_disk = RecordParser(identity, parser.commit)
        # A successful sync proves nothing if an earlier one has failed, in the previous writer or
        # in the kernel's own writeback: its pages stay readable, and are not written again. So the
        # one commit that may be unconfirmed is read from the disk.
        os.posix_fadvise(fd, parser.commit - parser.commit % _PAGE, 0, os.POSIX_FADV_DONTNEED)
        for _ in feed_file(fd, on_disk, end):
            pass
        if on_disk.end < end:
            end, count = on_disk.end, parser.earlier + on_disk.count
            reason = "the last records were in the page cache, and are not on the disk"
            cut = _cut(fd, path, end)
    return identity, Recovered(count, end, size - end, reason, cut.kept_in if cut else None)


def _cut(fd: int, path: str, end: int) -> Cut | None:
    """Cut the tail off, keeping it: the last commit may be damaged and not torn.

    Of any size, because one commit may have any; later ones would have shown.
    """
    return cut_end(fd, Path(path), end, force=True)


def feed_file(fd: int, parser: RecordParser, size: int) -> Iterator[bytes]:
    """Feed the file to the parser, from its offset up to ``size``; iterate over the payloads."""
    position = parser.offset
    while parser.damage is None and position < size:
        # A length beyond the end of the file is a torn tail.
        if position + parser.needed > size:
            break
        data = os.pread(fd, max(_PIECE, parser.needed), position)
        if not data:
            break
        position += len(data)
        yield from parser.feed(data)


def find_header(
    fd: int, identity: LogIdentity, begin: int, size: int, *, after: int
) -> tuple[int, RecordHeader] | None:
    """Return where from ``begin`` on the first header is whose commit began after ``after``.

    None if there is none before ``size``. Holes are skipped: a file system may have left gigabytes
    of them after a torn end.
    """
    position = begin
    while position < size:
        try:
            position = max(position, os.lseek(fd, position, os.SEEK_DATA))
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise
        data = os.pread(fd, min(_PIECE, size - position), position)
        found = identity.find_header(data, position, after)
        if found is not None:
            header = identity.parse_header(data, found, position + found)
            assert isinstance(header, RecordHeader)
            return position + found, header
        if len(data) < identity.header_size:
            return None
        position += len(data) - (identity.header_size - 1)
    return None


_INCOMPLETE = "the last record is not complete"
