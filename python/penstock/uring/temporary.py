"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._temporary_name import temporary_name
from penstock.uring.errors import UringError, naming

if TYPE_CHECKING:
    from collections.abc import Iterable

    Path = str | bytes | os.PathLike[Any]


@dataclass(frozen=True)
class Target:
    """Where a file will be.

    Attributes:
        path: as the caller gave it, for errors.
        final: the file's own name, symbolic links followed.
        temporary: a name beside it, for while it is written.
        mode: permissions of the file that is replaced; None for a new one.
    """

    path: str
    final: str
    temporary: str
    mode: int | None


def choose_target(path: Path) -> Target:
    """Look at what is there, and choose a name to write to meanwhile.

    Raises:
        UringError: if there is a directory, or what is there cannot be looked at.
        ValueError: if there is something that cannot be replaced, such as a device.
    """
    given = os.fsdecode(path)
    final, mode = given, None
    with naming(given):
        try:
            found = os.lstat(given)
            if stat.S_ISLNK(found.st_mode):
                final = os.path.realpath(given)
                found = os.stat(given)
        except FileNotFoundError:
            pass
        else:
            if stat.S_ISDIR(found.st_mode):
                raise UringError(errno.EISDIR, os.strerror(errno.EISDIR), given)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{given!r} is no regular file and cannot be replaced by one")
            mode = stat.S_IMODE(found.st_mode)
    folder, name = os.path.split(final)
    temporary = os.path.join(folder, temporary_name(name))
    return Target(given, final, temporary, mode)


def remove_quietly(path: str) -> None:
    """Remove a file that may not be there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def sync_folders(paths: Iterable[str]) -> None:
    """Make the names of files durable: fsync(2) each folder once.

    Raises:
        UringError: names the folder.
    """
    for folder in {os.path.dirname(path) or "." for path in paths}:
        with naming(folder):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
