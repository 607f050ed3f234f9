"""Files that get their name in one step: complete, and durable on request.

A new file is written under a temporary name in the target's own folder, because rename(2) is one
step only within a file system. The content is synced before the rename, because a file system may
otherwise make the name durable before the content; the folder is synced after it.

These functions block. Asynchronous code calls them on a worker. :mod:`penstock.files` and
:mod:`penstock.uring` replace single steps by their own operations.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass

_NAME_MAX = 255  # bytes, limits.h
_TOKEN_BYTES = 4
_TOKEN_DIGITS = 2 * _TOKEN_BYTES
_ATTEMPTS = 100

PERMISSIONS = 0o777
"""The permission bits that a replacement keeps; a write clears set-user-ID and set-group-ID too."""

# The errors of link(2) on a file system without hard links, or in a sandbox that forbids them.
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class NotRegularFileError(OSError):
    """The name belongs to a pipe, a socket or a device, which a file cannot replace."""


@dataclass(frozen=True, slots=True)
class Target:
    """The file that a path leads to.

    Attributes:
        path: as the caller gave it, for errors.
        final: the file's absolute name, symbolic links followed.
        permissions: of the file that has this name now; None if there is none.
    """

    path: str
    final: str
    permissions: int | None


def find_target(path: str) -> Target:
    """Follow ``path``, and check whether a file can be put there.

    Raises:
        NotRegularFileError: if the name is that of a pipe, a socket or a device.
        IsADirectoryError: if it is that of a folder.
        OSError: if the path cannot be followed.
    """
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    final = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    try:
        found = os.lstat(final)
        if stat.S_ISLNK(found.st_mode):
            final = os.path.realpath(final)
            found = os.stat(final)
    except FileNotFoundError:
        return Target(path, final, None)
    except OSError as error:
        raise with_path(error, path) from error
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularFileError(
            errno.EINVAL,
            "is not a regular file and cannot be replaced; open it for writing instead",
            path,
        )
    return Target(path, final, stat.S_IMODE(found.st_mode) & PERMISSIONS)


def temporary_path(final: str) -> str:
    """Return a new name beside ``final``: ``.NAME.XXXXXXXX.tmp``.

    A name that would be too long for a file system is cut to a number of bytes, but not inside a
    character.
    """
    folder, name = os.path.split(final)
    token = secrets.token_hex(_TOKEN_BYTES)
    return os.path.join(folder, f".{_stem(name)}.{token}.tmp")


def _stem(name: str) -> str:
    room = _NAME_MAX - len("..") - _TOKEN_DIGITS - len(".tmp")
    return os.fsencode(name)[:room].decode("utf-8", "ignore")


def find_leftovers(final: str) -> list[str]:
    """Return the temporary files of ``final`` that a killed process has left.

    The caller must know that no process is writing ``final``. Names that were cut are left out,
    because they may belong to another file.
    """
    folder, name = os.path.split(final)
    if _stem(name) != name:
        return []
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{{_TOKEN_DIGITS}}}\.tmp")
    return [
        os.path.join(folder, each) for each in os.listdir(folder or ".") if pattern.fullmatch(each)
    ]


def create_temporary(target: Target, mode: int = 0o666) -> tuple[int, str]:
    """Create a temporary file beside the target; return its descriptor and its name.

    If it replaces a file, only the owner may open it until the caller sets its permissions.

    Args:
        target: what is to be created or replaced.
        mode: permissions of a file that replaces none, less the umask.

    Raises:
        OSError: with the path that the caller gave.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(_ATTEMPTS):
        temporary = temporary_path(target.final)
        try:
            return os.open(
                temporary, flags, mode if target.permissions is None else 0o600
            ), temporary
        except FileExistsError:
            continue
        except OSError as error:
            raise with_path(error, target.path) from error
    raise FileExistsError(errno.EEXIST, "no free name for a temporary file next to it", target.path)


def put_in_place(temporary: str, target: Target, *, overwrite: bool = True) -> None:
    """Give a temporary file the target's name, in one step.

    Without ``overwrite``, a file that has the name stays, and so does the temporary file. On a file
    system without hard links, an empty file then has the name for a moment.

    Raises:
        FileExistsError: if the name is taken, without ``overwrite``.
        OSError: with the path that the caller gave.
    """
    try:
        if overwrite:
            os.replace(temporary, target.final)
        else:
            _link(temporary, target.final)
    except OSError as error:
        raise with_path(error, target.path) from error


def _link(temporary: str, final: str) -> None:
    try:
        os.link(temporary, final)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    else:
        os.unlink(temporary)
        return
    os.close(os.open(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        os.replace(temporary, final)
    except BaseException:
        os.unlink(final)
        raise


def remove_temporary(temporary: str) -> None:
    """Remove a temporary file after a failure, which an error of this call must not hide."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def sync_folder(path: str) -> None:
    """Make creations, renames and removals in the folder of ``path`` durable.

    Raises:
        OSError: with the folder's name.
    """
    folder = os.path.dirname(path) or "."
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise with_path(error, folder) from error


def write_fully(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data``, usually with one call.

    After an OSError in the middle, the bytes written so far are in the file: the caller truncates
    it to its former end.
    """
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view)
        view = view[written:]


def put_file(
    path: str | os.PathLike[str] | Target,
    fill: Callable[[int], object],
    *,
    mode: int = 0o666,
    overwrite: bool = True,
    sync: bool = True,
) -> int:
    """Let ``fill(descriptor)`` write a temporary file, and give it the name ``path``.

    A reader of ``path`` sees the old file or the whole new one. After a failure there is no
    temporary file, and an old file is unchanged. A process that is killed meanwhile leaves a
    temporary file, see :func:`find_leftovers`.

    Args:
        path: the file; a symbolic link is followed. Or what :func:`find_target` returned.
        fill: writes the content.
        mode: permissions of a file that replaces none, less the umask; those of a file that is
            replaced are kept.
        overwrite: replace a file that is there, including one that appears meanwhile.
        sync: make the content durable before it gets its name. The name is durable after
            :func:`sync_folder`.

    Returns:
        The descriptor of the file, open for reading and writing, which the caller closes.

    Raises:
        FileExistsError: if the name is taken, without ``overwrite``.
        OSError: with ``path``; what ``fill`` raises is raised unchanged.
    """
    target = path if isinstance(path, Target) else find_target(os.fspath(path))
    if target.permissions is not None and not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.path)
    descriptor, temporary = create_temporary(target, mode)
    try:
        fill(descriptor)
        try:
            if target.permissions is not None:
                os.fchmod(descriptor, target.permissions)
            if sync:
                os.fsync(descriptor)
        except OSError as error:
            raise with_path(error, target.path) from error
        put_in_place(temporary, target, overwrite=overwrite)
    except BaseException:
        os.close(descriptor)
        remove_temporary(temporary)
        raise
    return descriptor


def with_path(error: OSError, path: str) -> OSError:
    """Return the same error with the path that the caller knows."""
    return type(error)(error.errno, error.strerror, path)
