"""Functions of :mod:`os` that ask the file system, awaited, under their own names.

They take the arguments of ``os``'s, and raise what those raise. What the engine does itself
(``stat``, ``rename``, ``unlink``, ...) costs no thread; the rest runs on a worker. A cancelled
await returns at once; what was asked for may then be done or not.

``scandir`` returns a context manager, as ``os.scandir`` does; ``penstock.files.scandir`` returns
a list.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from penstock.files import ospath as path
from penstock.files import paths
from penstock.files.backend import current_backend
from penstock.files.on_worker import on_worker as wrap

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

__all__ = [
    "access",
    "getcwd",
    "link",
    "listdir",
    "makedirs",
    "mkdir",
    "path",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "stat",
    "statvfs",
    "symlink",
    "unlink",
    "wrap",
]

P = ParamSpec("P")
T = TypeVar("T")


def _by_engine(
    engine: Callable[..., Awaitable[Any]], function: Callable[P, T]
) -> Callable[P, Awaitable[T]]:
    """The engine's own operation, where the call has no argument that only ``function`` knows."""

    @wraps(function)
    async def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        if keywords:
            return await current_backend().call(partial(function, *arguments, **keywords))
        return await engine(*arguments)  # type: ignore[no-any-return]

    return call


async def _stat(path: StrOrBytesPath | int) -> os.stat_result:
    return await paths.stat(path)


access = wrap(os.access)
getcwd = wrap(os.getcwd)
link = _by_engine(paths.link, os.link)
listdir = wrap(os.listdir)
makedirs = wrap(os.makedirs)
mkdir = _by_engine(paths.mkdir, os.mkdir)
readlink = wrap(os.readlink)
remove = _by_engine(paths.unlink, os.remove)
removedirs = wrap(os.removedirs)
rename = _by_engine(paths.rename, os.rename)
renames = wrap(os.renames)
replace = _by_engine(paths.replace, os.replace)
rmdir = _by_engine(paths.rmdir, os.rmdir)
scandir = wrap(os.scandir)
sendfile = wrap(os.sendfile)
stat = _by_engine(_stat, os.stat)
statvfs = wrap(os.statvfs)
symlink = wrap(os.symlink)
unlink = _by_engine(paths.unlink, os.unlink)
