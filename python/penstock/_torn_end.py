"""The one way in which Penstock takes bytes off a file that already holds somebody's data.

A process that is killed, or a machine that loses its power, leaves files that end in the middle of
a row, a record or a message. To go on after such an end, the end must go. A reader that is wrong
about where it begins then destroys data: a CSV file that an editor has saved with other line ends,
or one flipped bit in the middle of a month, looks like a torn end that is nearly the whole file.
Nobody notices, because the command reports success. So the readers decide what *looks* torn, and
this module decides what *may go*, by three rules that no format has an exception from:

1. **Nothing is cut without a copy.** What goes is first written to ``NAME.torn`` beside the file,
   ``NAME.torn2`` if that name is taken, and so on: an earlier copy is never replaced. The order is
   copy, sync of the copy, sync of the folder, cut, sync of the file. Killed at any point, the bytes
   are in the file, in the copy, or in both. After a kill between the copy and the cut, the next cut
   finds the copy by its content and makes no second one.
2. **A large end is not cut unasked.** What a kill can tear is what one write had in hand: one row
   of a text, one batch of a journal, one transaction of a log. The caller states in ``more`` what
   it sees beyond that, and a tail of more than ``most`` bytes counts as more by itself. Such a cut
   raises :class:`EndTooLargeError` before anything is written, unless ``force`` is given. Zero
   bytes do not count: file systems leave them instead of the blocks that they had no time to
   write, and they hold nothing.
3. **The message names the copy.** :class:`Cut` carries its path and its size, and every command
   prints both.

They do not hold for what a running process takes back of its own failed write, before it has told
anybody that the rows are in the file: it still knows exactly where the write began, and a full disk
has no room for a copy.

*Rejected:* renaming the whole file and writing a repaired one. It needs the room of the file twice,
which is not there after a full disk, and it breaks hard links and the locks that other processes
hold. *Rejected:* one ``NAME.torn`` to which every cut is appended. Two cuts would run into each
other, and a copy that can grow can also be torn. *Rejected:* a limit in rows only. A row has no
largest size, and what lies after a stray quote is one row of a gigabyte.

All functions block and raise OSError. The caller holds the lock of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from penstock._durable_files import find_leftovers, put_file, sync_folder, write_fully

MOST_TORN_BYTES = 65_536
"""The largest end of a text that may be one torn row. Rows of Penstock have some hundred bytes."""

_PIECE = 1 << 20


class EndTooLargeError(Exception):
    """What looks like a torn end is more than a kill can tear. The file is unchanged."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What was taken off a file.

    Attributes:
        path: the file.
        size: how many bytes.
        kept_in: the file beside it that has them now.
    """

    path: Path
    size: int
    kept_in: Path

    def __str__(self) -> str:
        return (
            f"{self.size} bytes of a torn end were cut off {self.path} and kept in {self.kept_in}"
        )


def torn_path(path: Path, number: int) -> Path:
    """The name of the copy of a cut: ``run.csv.torn``, ``run.csv.torn2``, ..."""
    return path.with_name(f"{path.name}.torn{number if number > 1 else ''}")


def cut_end(
    descriptor: int,
    path: Path,
    end: int,
    *,
    force: bool = False,
    more: str = "",
    most: int = MOST_TORN_BYTES,
) -> Cut | None:
    """Cut the file ``path`` off at ``end``, and keep what goes beside it.

    Args:
        descriptor: the file, open for reading and writing.
        path: its name, for that of the copy and for the messages.
        end: where the torn end begins.
        force: cut an end of any size.
        more: what the caller found after ``end`` that is more than a kill can tear, if anything,
            as the part of a sentence: "3 whole batches follow".
        most: how many bytes, zero bytes apart, one write can have torn.

    Returns:
        What was cut; None if the file ends at ``end``.

    Raises:
        EndTooLargeError: the end is too large; nothing was changed.
        OSError: the copy or the cut failed. The bytes are still in the file, in the copy, or both.
    """
    size = os.fstat(descriptor).st_size
    if size <= end:
        return None
    check_size(descriptor, path, end, size, force=force, more=more, most=most)
    kept_in = keep_copy(descriptor, path, end, size)
    os.ftruncate(descriptor, end)
    os.fsync(descriptor)
    return Cut(path, size - end, kept_in)


def check_size(
    descriptor: int, path: Path, end: int, size: int, *, force: bool, more: str, most: int
) -> None:
    """Refuse a cut of more than a kill can tear; EndTooLargeError."""
    if force:
        return
    if not more and _has_more_than(descriptor, end, size, most):
        more = f"that is more than the {most} bytes that one write can have torn"
    if more:
        raise EndTooLargeError(
            f"{path} cannot be read from byte {end} on, which is {size - end} of its {size} bytes, "
            f"and {more}; nothing was changed. Inspect the file, and keep a copy. To cut it off "
            "there (the part that is cut off is kept next to it), add --force, or force=True in a "
            "program"
        )


def keep_copy(descriptor: int, path: Path, start: int, stop: int) -> Path:
    """Copy the bytes from ``start`` to ``stop`` durably to ``path.torn``; return the copy's name.

    A copy that is there already, of an attempt that was cut short, is used again.
    """
    permissions = stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o666
    number = 1
    while True:
        candidate = torn_path(path, number)
        for leftover in find_leftovers(os.fspath(candidate)):
            os.unlink(leftover)
        if not os.path.lexists(candidate):
            # Another process may take the name meanwhile.
            with contextlib.suppress(FileExistsError):
                copy = put_file(
                    candidate,
                    lambda copy: _copy(descriptor, copy, start, stop),
                    mode=permissions,
                    overwrite=False,
                )
                os.close(copy)
                sync_folder(os.fspath(candidate))
                return candidate
        elif os.path.isfile(candidate) and _is_copy(descriptor, candidate, start, stop):
            sync_folder(os.fspath(candidate))
            return candidate
        number += 1


def _copy(source: int, copy: int, start: int, stop: int) -> None:
    while start < stop:
        start += len(piece := _read(source, start, stop))
        write_fully(copy, piece)


def _is_copy(source: int, candidate: Path, start: int, stop: int) -> bool:
    with open(candidate, "rb") as file:
        if os.fstat(file.fileno()).st_size != stop - start:
            return False
        while start < stop:
            piece = _read(source, start, stop)
            if file.read(len(piece)) != piece:
                return False
            start += len(piece)
        # It may have come from a process that was killed before it could sync it.
        os.fsync(file.fileno())
    return True


def _has_more_than(descriptor: int, start: int, stop: int, most: int) -> bool:
    found = 0
    while start < stop and found <= most:
        piece = _read(descriptor, start, stop)
        found += len(piece) - piece.count(0)
        start += len(piece)
    return found > most


def _read(descriptor: int, start: int, stop: int) -> bytes:
    piece = os.pread(descriptor, min(_PIECE, stop - start), start)
    if not piece:
        raise OSError(errno.EIO, "the file became shorter while it was read")
    return piece
