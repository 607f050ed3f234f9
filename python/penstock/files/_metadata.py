"""What is known of files beside their content: access, status of many, space, attributes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from penstock._core import stat_now
from penstock._durable_files import sync_folder as sync_folder_of
from penstock._renamed import renamed
from penstock.files._answered import answered_from_cache
from penstock.files._backend import current_backend
from penstock.files._in_flight import results_of

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, ReadableBuffer, StrOrBytesPath

_COST_OF_ACCESS = 8192  # in bytes that could be copied meanwhile

# A cancelled await of one of these returns at once; the operation may or may not take effect.


@answered_from_cache("access")
async def access(
    path: FileDescriptorOrPath,
    mode: int,
    *,
    dir_fd: int | None = None,
    effective_ids: bool = False,
    follow_symlinks: bool = True,
) -> bool:
    """Return whether the user may do this with a file, as ``os.access`` does.

    The answer comes at once where the names are cached and the file system is local.

    Args:
        path: the file.
        mode: ``os.F_OK``, or a sum of ``os.R_OK``, ``os.W_OK`` and ``os.X_OK``.
        dir_fd: as for ``os.access``.
        effective_ids: as for ``os.access``.
        follow_symlinks: as for ``os.access``.
    """
    simple = dir_fd is None and not effective_ids and follow_symlinks
    backend = current_backend()
    if simple and not isinstance(path, int):
        if backend.should_yield(_COST_OF_ACCESS):
            await backend.yield_now()
        answer = backend.access_cached(path, mode)
        if answer is not None:
            return answer
    options = {
        "dir_fd": dir_fd,
        "effective_ids": effective_ids,
        "follow_symlinks": follow_symlinks,
    }
    return await backend.call(partial(os.access, path, mode, **options))  # type: ignore[arg-type]


@overload
async def stat_many(
    paths: Iterable[StrOrBytesPath],
    *,
    follow_symlinks: bool = True,
    missing_ok: Literal[False] = False,
    queue_depth: int = 64,
) -> list[os.stat_result]: ...


@overload
async def stat_many(
    paths: Iterable[StrOrBytesPath],
    *,
    follow_symlinks: bool = True,
    missing_ok: bool,
    queue_depth: int = 64,
) -> list[os.stat_result | None]: ...


@renamed(limit="queue_depth")
async def stat_many(
    paths: Iterable[StrOrBytesPath],
    *,
    follow_symlinks: bool = True,
    missing_ok: bool = False,
    queue_depth: int = 64,
) -> list[os.stat_result] | list[os.stat_result | None]:
    """Return the status of several files, in the order of their paths.

    Args:
        paths: the files.
        follow_symlinks: of what links lead to, not of the links.
        missing_ok: None for a file that is missing, instead of FileNotFoundError.
        queue_depth: how many are asked for at a time, if the answer waits for a disk or a server.

    Cancellation: abandons what has not been answered.

    Raises:
        OSError: with the path of the first file that could not be asked for.
        ValueError: if ``queue_depth`` is below 1.
    """
    if queue_depth < 1:
        raise ValueError(f"queue_depth {queue_depth} is below 1: no file could be asked for")
    backend = current_backend()
    found: list[os.stat_result | None] = []
    unknown: list[tuple[int, StrOrBytesPath]] = []
    for path in paths:
        status = stat_now(path, follow_symlinks)
        if status is None:
            if backend.should_yield(0):
                await backend.yield_now()
            unknown.append((len(found), path))
        found.append(status)
    operations = (backend.stat(path, follow_symlinks) for _, path in unknown)
    answers: list[os.stat_result | None] = await results_of(
        backend, operations, queue_depth, missing_ok=missing_ok
    )
    for (number, _), answer in zip(unknown, answers, strict=True):
        found[number] = answer
    return found


async def statvfs(path: FileDescriptorOrPath) -> os.statvfs_result:
    """Return the space of the file system that a path is on, as ``os.statvfs`` does."""
    return await current_backend().call(partial(os.statvfs, path))


async def sync_folder(path: StrOrBytesPath) -> None:
    """Make what was made, renamed and removed in a folder durable (fsync(2) of the folder).

    ``write_file(atomic=True)`` and ``copy`` do this themselves.

    Raises:
        OSError: with the folder; NotADirectoryError if it is none.
    """
    name = os.fsdecode(path)
    if not name:  # not the current folder
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    inside = os.path.join(name, "")
    await current_backend().call(partial(sync_folder_of, inside))


async def getxattr(
    path: FileDescriptorOrPath, attribute: StrOrBytesPath, *, follow_symlinks: bool = True
) -> bytes:
    """Return an extended attribute, as ``os.getxattr`` does; OSError with ENODATA if missing."""
    work = partial(os.getxattr, path, attribute, follow_symlinks=follow_symlinks)
    return await current_backend().call(work)


async def setxattr(
    path: FileDescriptorOrPath,
    attribute: StrOrBytesPath,
    value: ReadableBuffer,
    flags: int = 0,
    *,
    follow_symlinks: bool = True,
) -> None:
    """Set an extended attribute, as ``os.setxattr`` does."""
    work = partial(os.setxattr, path, attribute, value, flags, follow_symlinks=follow_symlinks)
    await current_backend().call(work)


async def listxattr(path: FileDescriptorOrPath, *, follow_symlinks: bool = True) -> list[str]:
    """Return the names of the extended attributes, as ``os.listxattr`` does."""
    work = partial(os.listxattr, path, follow_symlinks=follow_symlinks)
    return await current_backend().call(work)


async def removexattr(
    path: FileDescriptorOrPath, attribute: StrOrBytesPath, *, follow_symlinks: bool = True
) -> None:
    """Remove an extended attribute, as ``os.removexattr`` does."""
    work = partial(os.removexattr, path, attribute, follow_symlinks=follow_symlinks)
    await current_backend().call(work)
