"""What is done with paths: status, folders, renaming and removing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, AnyStr

from penstock.files._answered import answered_from_cache
from penstock.files._backend import current_backend

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_LARGEST_DESCRIPTOR = (1 << 31) - 1

# A cancelled await of one of these returns at once; the operation may or may not take effect.


@answered_from_cache("stat")
async def stat(path: StrOrBytesPath | int, *, follow_symlinks: bool = True) -> os.stat_result:
    """Return the status of a file, as ``os.stat`` does.

    ``path`` may be a descriptor.

    Raises:
        OSError: with the path.
    """
    if isinstance(path, int) and not 0 <= path <= _LARGEST_DESCRIPTOR:
        return os.stat(path, follow_symlinks=follow_symlinks)  # raises
    return await current_backend().stat(path, follow_symlinks)


async def scandir(path: AnyStr | os.PathLike[AnyStr]) -> list[os.DirEntry[AnyStr]]:
    """List a folder, read on a worker thread.

    The entries are ``os.scandir``'s. On common file systems their ``is_file``, ``is_dir`` and
    ``is_symlink`` need no system call, except for symbolic links. Their ``stat`` makes one, and
    blocks.
    """

    def scan() -> list[os.DirEntry[AnyStr]]:
        with os.scandir(path) as entries:
            return list(entries)

    return await current_backend().call(scan)


async def rename(source: StrOrBytesPath, target: StrOrBytesPath) -> None:
    """Rename a file or folder on one file system (rename(2)); a target file is replaced."""
    await current_backend().rename(source, target)


async def replace(source: StrOrBytesPath, target: StrOrBytesPath) -> None:
    """Do the same as :func:`rename`; the name says that a target file is replaced."""
    await current_backend().replace(source, target)


async def link(source: StrOrBytesPath, target: StrOrBytesPath) -> None:
    """Give a file a second name (link(2))."""
    await current_backend().link(source, target)


async def unlink(path: StrOrBytesPath, *, missing_ok: bool = False) -> None:
    """Remove a file's name (unlink(2))."""
    try:
        await current_backend().unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


async def mkdir(
    path: StrOrBytesPath, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False
) -> None:
    """Make a folder; with ``parents``, those above it too.

    Raises:
        FileExistsError: if something has the name, unless it is a folder and ``exist_ok``.
    """
    backend = current_backend()
    if parents:
        await backend.call(lambda: os.makedirs(path, mode, exist_ok))
        return
    try:
        await backend.mkdir(path, mode)
    except FileExistsError:
        if not exist_ok or not await backend.call(lambda: os.path.isdir(path)):
            raise


async def rmdir(path: StrOrBytesPath) -> None:
    """Remove an empty folder (rmdir(2))."""
    await current_backend().rmdir(path)
