"""Functions of :mod:`os.path` on the file system, made asynchronous, under their own names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Coroutine
from functools import wraps
from os import path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.files import _paths
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
    function: Callable[[FileDescriptorOrPath], bool],
    answer: Callable[[os.stat_result], bool],
    *,
    follow_symlinks: bool = True,
) -> Callable[[FileDescriptorOrPath], Coroutine[Any, Any, bool]]:
    """Return ``function`` likewise; as in ``os.path``, what has no status is False."""

    @wraps(function)
    async def call(path: FileDescriptorOrPath) -> bool:
        if not follow_symlinks and isinstance(path, int):
            return function(path)  # raises
        try:
            return answer(await _paths.stat(path, follow_symlinks=follow_symlinks))
        except (OSError, ValueError):
            return False

    return call


abspath = on_worker(path.abspath)
exists = _question(path.exists, lambda status: True)
getatime = _of_status(path.getatime, lambda status: status.st_atime)
getctime = _of_status(path.getctime, lambda status: status.st_ctime)
getmtime = _of_status(path.getmtime, lambda status: status.st_mtime)
getsize = _of_status(path.getsize, lambda status: status.st_size)
isdir = _question(path.isdir, lambda status: stat.S_ISDIR(status.st_mode))
isfile = _question(path.isfile, lambda status: stat.S_ISREG(status.st_mode))
islink = _question(path.islink, lambda status: stat.S_ISLNK(status.st_mode), follow_symlinks=False)
ismount = on_worker(path.ismount)
samefile = on_worker(path.samefile)
sameopenfile = on_worker(path.sameopenfile)
