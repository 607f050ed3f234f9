"""Functions of :mod:`os` on the file system, made asynchronous, under their own names.

They take the arguments of ``os`` and raise the same errors. The engine does ``stat``, ``rename``,
``unlink`` and others itself; the rest runs on a worker thread. A cancelled await returns at once;
the operation may or may not take effect.

``scandir`` returns a context manager, as ``os.scandir`` does; ``penstock.files.scandir`` returns
a list.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from penstock._public_names import claim_wrappers as _claim_wrappers
from penstock.files import _metadata, _paths
from penstock.files import ospath as path
from penstock.files._backend import current_backend
from penstock.files._on_worker import on_worker as wrap

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
    """Use the engine's own operation if the call has no argument that only ``function`` has."""

    @wraps(function)
    async def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        if keywords:
            return await current_backend().call(partial(function, *arguments, **keywords))
        return await engine(*arguments)  # type: ignore[no-any-return]

    return call


async def _stat(path: StrOrBytesPath | int) -> os.stat_result:
    return await _paths.stat(path)


access: Final = _metadata.access
getcwd: Final = wrap(os.getcwd)
link: Final = _by_engine(_paths.link, os.link)
listdir: Final = wrap(os.listdir)
makedirs: Final = wrap(os.makedirs)
mkdir: Final = _by_engine(_paths.mkdir, os.mkdir)
readlink: Final = wrap(os.readlink)
remove: Final = _by_engine(_paths.unlink, os.remove)
removedirs: Final = wrap(os.removedirs)
rename: Final = _by_engine(_paths.rename, os.rename)
renames: Final = wrap(os.renames)
replace: Final = _by_engine(_paths.replace, os.replace)
rmdir: Final = _by_engine(_paths.rmdir, os.rmdir)
scandir: Final = wrap(os.scandir)
sendfile: Final = wrap(os.sendfile)
stat: Final = _by_engine(_stat, os.stat)
statvfs: Final = wrap(os.statvfs)
symlink: Final = wrap(os.symlink)
unlink: Final = _by_engine(_paths.unlink, os.unlink)

_claim_wrappers(globals())
