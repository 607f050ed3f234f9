"""Creates, extends and truncates files so that no incomplete step goes unnoticed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock._durable_files import put_file, write_fully
from penstock.record.errors import RecoveryError, SinkError, SinkExistsError, SinkWriteError

_REMEDIES = {
    errno.ENOSPC: "free some space or record to another disk",
    errno.EDQUOT: "the quota is used up: free some space or record to another disk",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f) or record elsewhere",
    errno.EACCES: "choose a folder that you may write to, or change its permissions",
    errno.EPERM: "choose a folder that you may write to, or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "a part of the path is not a folder: correct the path",
    errno.EISDIR: "give the name of a file, not of a folder",
    errno.EIO: "the disk reports an error: check it and record elsewhere",
}


def explain(action: str, path: Path, error: OSError) -> SinkWriteError:
    """One sentence: what could not be done to which file, why, and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    text = f"cannot {action} {path}: {error.strerror or error}"
    return SinkWriteError(f"{text}; {remedy}" if remedy else text)


@contextlib.contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a SinkWriteError that names the file."""
    try:
        yield
    except SinkError:
        raise  # explained already, though one of them is a FileExistsError too
    except OSError as error:
        raise explain(action, path, error) from error


def create_file(path: Path, *, overwrite: bool) -> int:
    """Open a new file for writing and lock it; returns its descriptor.

    The creation is exclusive (O_EXCL), so of two recorders that start at once only one gets the
    name. With ``overwrite`` an existing file is opened unchanged: its sink truncates it when the
    first data arrive, not earlier.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if overwrite else os.O_EXCL)
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileExistsError as error:
        raise SinkExistsError(
            f"{path} already exists: choose another name, or pass overwrite=True to replace it"
        ) from error
    except OSError as error:
        raise explain("create", path, error) from error
    try:
        lock_file(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_file(descriptor: int, path: Path, named: Path | None = None) -> None:
    """Lock a file against other recorders and against recovery; SinkWriteError if it is taken.

    ``named`` is what the message calls it, where ``path`` only stands for that.
    """
    named = path if named is None else named
    if not is_regular(descriptor):
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SinkWriteError(
            f"{named} is being recorded by another process: wait until that has ended"
        ) from error
    except OSError as error:
        # File systems without locks (some network mounts) are recorded to without one.
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise explain("lock", path, error) from error


def take_lock_file(path: Path, named: Path) -> int:
    """Create and lock a file that stands for a recording; its descriptor.

    Its holder may remove it before it closes the descriptor. SinkWriteError while another process
    records ``named``.
    """
    while True:
        with explained("lock", path):
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            lock_file(lock, path, named)
            # The recorder that had it may have removed the file meanwhile.
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                taken, lock = lock, -1
                return taken
        except FileNotFoundError:
            pass
        finally:
            if lock >= 0:
                os.close(lock)


def check_not_removed(descriptor: int, path: Path) -> None:
    """Raise SinkWriteError if an open file has no name any more.

    Linux goes on writing into it without an error, and discards all of it at the close. A file that
    was only moved is written on.
    """
    if os.fstat(descriptor).st_nlink == 0:
        raise SinkWriteError(
            f"cannot write {path}: it was removed while it was being recorded, and its samples are "
            "lost; record to another folder"
        )


def is_regular(descriptor: int) -> bool:
    """False for a pipe or a device, which can neither be cut nor synced."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a whole file in one step: a reader sees the old or the new one, never a mixture."""
    with explained("write", path):
        os.close(put_file(path, lambda descriptor: write_fully(descriptor, data)))


def part_path(path: Path, number: int) -> Path:
    """The name of a later part of a recording: ``run.csv``, ``run.part2.csv``, ..."""
    return path if number == 1 else path.with_name(f"{path.stem}.part{number}{path.suffix}")


def numbered_parts(path: Path) -> list[tuple[int, Path]]:
    """The files of a recording with their numbers, including those after one that is missing."""
    pattern = re.compile(rf"{re.escape(path.stem)}\.part([1-9]\d*){re.escape(path.suffix)}")
    later = (pattern.fullmatch(name) for name in os.listdir(path.parent))
    numbers = {int(match[1]) for match in later if match is not None} - {1}
    found = [1, *sorted(numbers)] if path.exists() else sorted(numbers)
    return [(number, part_path(path, number)) for number in found]


def check_no_part_missing(path: Path) -> list[Path]:
    """The files of a recording that is to be continued; RecoveryError if one is missing.

    Its place would be taken by rows that belong after the others.
    """
    parts = numbered_parts(path)
    for expected, (number, part) in enumerate(parts, 1):
        if number != expected:
            raise RecoveryError(
                f"{part_path(path, expected)} is missing, and {part.name} is there: the recording "
                "cannot be continued. Restore the missing file, or begin a new recording"
            )
    return [part for _, part in parts]


def remove_parts(path: Path, first: int, beside: Callable[[Path], Sequence[Path]]) -> None:
    """Remove the parts of a replaced recording from number ``first`` on, with what is beside them.

    SinkWriteError while one of them is being recorded. OSError.
    """
    for number, part in reversed(numbered_parts(path)):
        if number < first:
            continue
        descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC)
        try:
            lock_file(descriptor, part)
            for other in beside(part):
                other.unlink(missing_ok=True)
            part.unlink()
        finally:
            os.close(descriptor)
