"""Functions of :mod:`os.path` on the file system, made asynchronous, under their own names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Coroutine
from functools import wraps
from os import path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock._public_names import claim_wrappers as _claim_wrappers
from penstock.files import _paths
from penstock.files._answered import answered_from_cache
from penstock.files._on_worker import on_worker

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath

__all__ = [
    "abspath",
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "samefile",
    "sameopenfile",
]

T = TypeVar("T")


def _of_status(
    function: Callable[[FileDescriptorOrPath], T],
    take: Callable[[os.stat_result], T],
    *,
    follow_symlinks: bool = True,
) -> Callable[[FileDescriptorOrPath], Coroutine[Any, Any, T]]:
    """Return ``function`` as what it takes from the file's status, which mostly comes at once."""

    @wraps(function)
    async def call(path: FileDescriptorOrPath) -> T:
        return take(await _paths.stat(path, follow_symlinks=follow_symlinks))

    return call


def _question(
    name: str, kind: int, *, follow_symlinks: bool = True
) -> Callable[[FileDescriptorOrPath], Coroutine[Any, Any, bool]]:
    """Return ``os.path``'s function: whether a file is of a kind, and False without a file."""
    function = getattr(path, name)

    @answered_from_cache(name)
    @wraps(function)
    async def call(path: FileDescriptorOrPath) -> bool:
        try:
            if isinstance(path, int) and not follow_symlinks:
                return bool(function(path))  # raises
            status = await _paths.stat(path, follow_symlinks=follow_symlinks)
            return stat.S_IFMT(status.st_mode) == kind
        except (OSError, ValueError):
            return False

    return call


@answered_from_cache("exists")
@wraps(path.exists)
async def exists(path: FileDescriptorOrPath) -> bool:
    """Whether the path leads to a file; it mostly is answered at once."""
    try:
        await _paths.stat(path)
    except (OSError, ValueError):
        return False
    return True


abspath: Final = on_worker(path.abspath)
getatime: Final = _of_status(path.getatime, lambda status: status.st_atime)
getctime: Final = _of_status(path.getctime, lambda status: status.st_ctime)
getmtime: Final = _of_status(path.getmtime, lambda status: status.st_mtime)
getsize: Final = _of_status(path.getsize, lambda status: status.st_size)
isdir: Final = _question("isdir", stat.S_IFDIR)
isfile: Final = _question("isfile", stat.S_IFREG)
islink: Final = _question("islink", stat.S_IFLNK, follow_symlinks=False)
ismount: Final = on_worker(path.ismount)
samefile: Final = on_worker(path.samefile)
sameopenfile: Final = on_worker(path.sameopenfile)

_claim_wrappers(globals())
