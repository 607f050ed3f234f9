"""A new file that takes a name in one step, whole, or leaves no trace."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock._temporary_name import temporary_name
from penstock.files.backend import FileBackend
from penstock.files.detached import Stop

__all__ = ["PERMISSIONS", "named", "replace_file"]

T = TypeVar("T")

PERMISSIONS = 0o777
"""The bits of a mode that are carried over; set-user-ID and its kin, a write clears as well."""

_ATTEMPTS = 100


async def replace_file(
    backend: FileBackend,
    stop: Stop,
    path: str,
    fill: Callable[[int], Awaitable[T]],
    *,
    mode: int,
    keep_mode: bool,
    sync: bool,
) -> T:
    """Let ``fill(fd)`` write a temporary file beside ``path``, and give it that name.

    With ``sync`` the content is durable before the file has its name, and the name is when this
    returns. Until the rename the name belongs to the old file, or to none; if anything fails
    before, or ``stop`` is requested, the temporary file is removed. A process that is killed
    in between leaves it, as ``.NAME.XXXXXXXX.tmp``.

    A symbolic link at ``path`` stays one: the file it leads to is replaced.

    Args:
        mode: permissions of the new file, less the umask, which do not apply to a mode that
            ``fill`` or ``keep_mode`` sets.
        keep_mode: give the new file the permissions of the one it replaces.

    Returns:
        What ``fill`` returned.

    Raises:
        OSError: as the system tells it, with the name of the target; also if the target is no
            regular file.
    """
    target, kept = await backend.call(lambda: _examine(path))
    if kept is not None and keep_mode:
        mode = kept
    fd, temporary = await _create(backend, target, mode if kept is None else 0o600)
    try:
        try:
            result = await fill(fd)
            stop.check()
            if kept is not None and keep_mode:
                await backend.call(lambda: os.fchmod(fd, mode))
            if sync:
                await backend.fsync(fd)
                stop.check()
        finally:
            await backend.close(fd)
        stop.check()
        await backend.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            await backend.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (None, temporary):
            # What the caller knows is the target; the temporary name tells nothing.
            raise named(error, path) from error
        raise
    if sync:
        await _sync_folder(backend, os.path.dirname(target))
    return result


def _examine(path: str) -> tuple[str, int | None]:
    """The file that ``path`` leads to, and its permissions if it exists."""
    if not path:  # which realpath() takes for the folder that the process is in
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    target = os.path.realpath(path)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return target, None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(
            errno.EINVAL, "is no regular file, which alone can be replaced; write into it", path
        )
    return target, stat.S_IMODE(status.st_mode) & PERMISSIONS


async def _create(backend: FileBackend, target: str, mode: int) -> tuple[int, str]:
    folder, name = os.path.split(target)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(_ATTEMPTS):
        temporary = os.path.join(folder, temporary_name(name))
        creation = _Creation(temporary, flags, mode)
        try:
            return await backend.call(creation.run), temporary
        except FileExistsError:
            continue
        except BaseException as error:
            creation.give_up()
            if isinstance(error, OSError):
                raise named(error, target) from error
            raise
    raise FileExistsError(errno.EEXIST, "no free name for a temporary file beside it", target)


class _Creation:
    """The creation of a file on another thread, which leaves none when it is given up.

    An open of the engine would not do: when the loop's run ends every await is cancelled, and what
    the kernel then still creates, nobody would hear of.
    """

    def __init__(self, path: str, flags: int, mode: int) -> None:
        self._arguments = (path, flags, mode)
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._given_up = False

    def run(self) -> int:
        """Create the file and return its descriptor."""
        fd = os.open(*self._arguments)
        with self._lock:
            self._fd = fd
            if not self._given_up:
                return fd
        self._remove(fd)
        return fd

    def give_up(self) -> None:
        """Remove the file, now or as soon as it is there. Any thread."""
        with self._lock:
            self._given_up = True
            fd = self._fd
        if fd is not None:
            self._remove(fd)

    def _remove(self, fd: int) -> None:
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(self._arguments[0])


async def _sync_folder(backend: FileBackend, folder: str) -> None:
    fd = await backend.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await backend.fsync(fd)
    finally:
        await backend.close(fd)


def named(error: OSError, path: str) -> OSError:
    """The same error, of the file that the caller knows."""
    return OSError(error.errno, error.strerror, path)
