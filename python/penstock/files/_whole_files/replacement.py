"""The replacement of a file in one step, on the running loop."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock._durable_files import (
    Target,
    create_temporary,
    find_target,
    remove_temporary,
    sync_folder,
    with_path,
)
from penstock.files._backend import FileBackend
from penstock.files._detached import Stop

T = TypeVar("T")


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

    With ``sync`` the content is durable before the rename, and the name when this returns. If a
    step before the rename fails, or ``stop`` is requested, the temporary file is removed. Only a
    killed process leaves it, as ``.NAME.XXXXXXXX.tmp``.

    A symbolic link at ``path`` stays one: its target is replaced.

    Args:
        backend: does the operations.
        stop: ends the replacement between two steps.
        path: the file; a symbolic link is followed.
        fill: writes the content.
        mode: permissions of the new file, less the umask, which do not apply to a mode that
            ``fill`` or ``keep_mode`` sets.
        keep_mode: give the new file the permissions of the one it replaces.
        sync: make content and name durable.

    Returns:
        What ``fill`` returned.

    Raises:
        OSError: with the path; also if the target is not a regular file.
    """
    try:
        return await _replace(backend, stop, path, fill, mode, keep_mode, sync)
    except OSError as error:
        if error.filename is None:
            raise with_path(error, path) from error
        raise


async def _replace(
    backend: FileBackend,
    stop: Stop,
    path: str,
    fill: Callable[[int], Awaitable[T]],
    mode: int,
    keep_mode: bool,
    sync: bool,
) -> T:
    target = await stop.step(backend.call(lambda: find_target(path)))
    permissions = target.permissions if keep_mode else None
    creation = _Creation(target, mode)
    try:
        fd, temporary = await stop.step(backend.call(creation.run))
    except BaseException:
        creation.give_up()
        raise
    try:
        try:
            result = await fill(fd)
            stop.check()
            if permissions is not None:
                await stop.step(backend.call(lambda: os.fchmod(fd, permissions)))
            if sync:
                await stop.step(backend.fsync(fd))
        finally:
            await backend.close(fd)
        await stop.step(backend.replace(temporary, target.final))
    except BaseException as error:
        with contextlib.suppress(OSError):
            await backend.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise with_path(error, path) from error
        raise
    if sync:
        await stop.step(backend.call(lambda: sync_folder(target.final)))
    return result


class _Creation:
    """The creation of a temporary file on a worker, which leaves none when it is given up.

    An open of the engine would not do. When the loop's run ends every await is cancelled, and what
    the kernel then still creates would be reported to nobody.
    """

    def __init__(self, target: Target, mode: int) -> None:
        self._target = target
        self._mode = mode
        self._lock = threading.Lock()
        self._created: tuple[int, str] | None = None
        self._given_up = False

    def run(self) -> tuple[int, str]:
        """Create the file; return its descriptor and its name."""
        created = create_temporary(self._target, self._mode)
        with self._lock:
            self._created = created
            if not self._given_up:
                return created
        self._remove(created)
        return created

    def give_up(self) -> None:
        """Remove the file, now or as soon as it is created. Any thread."""
        with self._lock:
            self._given_up = True
            created = self._created
        if created is not None:
            self._remove(created)

    def _remove(self, created: tuple[int, str]) -> None:
        os.close(created[0])
        remove_temporary(created[1])
