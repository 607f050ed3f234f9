"""What SQLite will not read of a write-ahead log, before SQLite drops it.

SQLite opens a database that a kill has left with its log, takes the transactions up to the first
frame whose checksum is wrong, and forgets the rest without a word; with the last connection the
log is removed. Behind a torn transaction nothing is lost that was ever confirmed. Behind a damaged
frame in the middle, whole transactions are. So the log is looked at first, and kept where something
goes. The format of the log is that of https://www.sqlite.org/walformat.html.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock._torn_end import Cut, EndTooLargeError, check_size, keep_copy
from penstock.record._files.files import take_lock_file
from penstock.record.errors import RecoveryError

_HEAD = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the transactions of a log end that SQLite will read.

    Attributes:
        end: after the last of them.
        size: of what belongs to this log; older frames after it are of no use.
        more: what is after the damage that was confirmed, as the part of a sentence.
    """

    end: int
    size: int
    more: str = ""


def log_path(database: Path) -> Path:
    """The log of a database: ``run.sqlite`` -> ``run.sqlite-wal``.

    SQLite follows a symbolic link, and names the log after the file that it leads to.
    """
    return Path(f"{os.path.realpath(database)}-wal")


def lock_path(database: Path) -> Path:
    """The file that recorders lock for a database: ``run.sqlite`` -> ``run.sqlite-lock``.

    The same one by whatever symbolic link the database is opened.
    """
    return Path(f"{os.path.realpath(database)}-lock")


def take_lock(database: Path) -> int:
    """Lock a database against other recorders, through a file beside it; its descriptor.

    Rejected: locking the database itself. Closing that descriptor would drop the locks that
    SQLite holds on the same file for other connections of this process (fcntl(2)).

    SinkWriteError while another process records.
    """
    return take_lock_file(lock_path(database), database)


def release_lock(database: Path, lock: int) -> None:
    """Remove the file that :func:`take_lock` has locked."""
    with contextlib.suppress(OSError):
        os.unlink(lock_path(database))
    os.close(lock)


def read_log(path: Path) -> LogEnd | None:
    """What is in a log; None if there is none, or nothing in it. OSError."""
    try:
        with open(path, "rb") as file:
            return _log_end(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None


def _log_end(file: BinaryIO, there: int) -> LogEnd | None:
    """Frame by frame: while a reader holds an old state, a log grows without end."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return LogEnd(0, len(head)) if head else None
    magic, _, page, _, salt1, salt2, sum1, sum2 = _HEAD.unpack(head)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or (sums := _checksum(order, head[:24], (0, 0))) != (sum1, sum2):
        return LogEnd(0, there, "the head of the log is damaged, so none of it would be read")
    end = at = size = _HEAD.size
    good, lost = True, 0
    while at + _FRAME.size + page <= there:
        frame = file.read(_FRAME.size + page)
        if len(frame) < _FRAME.size + page:
            break  # SQLite has shortened it meanwhile
        _, commit, one, other, sum1, sum2 = _FRAME.unpack_from(frame)
        mine = (one, other) == (salt1, salt2)
        if good:
            sums = _checksum(order, frame[:8] + frame[_FRAME.size :], sums)
            good = mine and sums == (sum1, sum2)
        at += len(frame)
        if mine:
            size = at
            if commit and good:
                end = at
            elif commit:
                lost += 1
    more = f"{lost} confirmed transactions follow the damaged place" if lost else ""
    return LogEnd(end, max(size, end), more)


def keep_torn_log(database: Path, *, force: bool) -> Cut | None:
    """Keep the log of a database beside it, if SQLite will not read all of it.

    Call it before SQLite opens the database, holding the recorder's lock.

    Raises:
        RecoveryError: confirmed transactions follow a damaged place, without ``force``. Nothing
            was changed.
        OSError: the disk refuses.
    """
    path = log_path(database)
    found = read_log(path)
    if found is None or found.size <= max(found.end, _HEAD.size):
        return None
    with open(path, "rb") as file:
        number = file.fileno()
        try:
            check_size(
                number, path, found.end, found.size, force=force, more=found.more, most=found.size
            )
        except EndTooLargeError as error:
            raise RecoveryError(str(error)) from error
        kept_in = keep_copy(number, path, 0, os.fstat(number).st_size)
    return Cut(path, found.size - found.end, kept_in)


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, other = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data[: len(data) // 4 * 4]))
    for first in words:
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + next(words) + one) & 0xFFFFFFFF
    return one, other
