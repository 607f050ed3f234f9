"""Copying and moving files and trees of folders."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import Literal

from penstock._durable_files import PERMISSIONS
from penstock.files import _paths
from penstock.files._backend import current_backend
from penstock.files._path_objects.removal import rmtree
from penstock.files._path_objects.walking import read_folder
from penstock.files._whole_files.copying import copy

_FOLDER_PERMISSIONS = PERMISSIONS | stat.S_ISVTX
_KEEP_SECURITY = "security."  # capabilities would outlive their owner, as set-user-ID bits would
_NO_ATTRIBUTES = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENODATA, errno.EINVAL})


def _refuse(reason: str, source: str, target: str) -> OSError:
    return OSError(errno.EINVAL, reason, source, None, target)


async def copy_tree(
    source: str,
    target: str,
    *,
    follow_symlinks: bool,
    preserve_metadata: bool,
    exist_ok: bool = False,
    what: Literal["any", "folder"] = "any",
) -> None:
    """Copy a file, a link or a folder with all that is in it; see ``Path.copy``."""
    if PurePath(source) == PurePath(target):
        raise _refuse("Source and target are the same path", source, target)
    if PurePath(source) in PurePath(target).parents:
        raise _refuse("Source path is a parent of target path", source, target)
    status = await _paths.stat(source, follow_symlinks=follow_symlinks)
    if not stat.S_ISDIR(status.st_mode):
        if what == "folder":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), source)
        await _copy_entry(source, target, stat.S_ISLNK(status.st_mode), preserve_metadata)
        return
    backend = current_backend()
    # A folder's times and permissions are set when all that is in it is made.
    stack: list[tuple[str, str]] = [(source, target)]
    made: list[tuple[str, str]] = []
    while stack:
        folder, copied = stack.pop()
        listing = await backend.call(partial(read_folder, folder, follow_symlinks))
        if listing.error is not None:
            raise listing.error
        await _paths.mkdir(copied, exist_ok=exist_ok)
        made.append((folder, copied))
        for name in listing.others:
            one, other = os.path.join(folder, name), os.path.join(copied, name)
            is_link = not follow_symlinks and stat.S_ISLNK(
                (await _paths.stat(one, follow_symlinks=False)).st_mode
            )
            await _copy_entry(one, other, is_link, preserve_metadata)
        for name in reversed(listing.folders):
            stack.append((os.path.join(folder, name), os.path.join(copied, name)))
    if preserve_metadata:
        for folder, copied in reversed(made):
            await _copy_metadata(folder, copied)


async def _copy_entry(source: str, target: str, is_link: bool, preserve_metadata: bool) -> None:
    if is_link:
        await current_backend().call(lambda: os.symlink(os.readlink(source), target))
    else:
        await copy(source, target, sync=False)
    if preserve_metadata:
        await _copy_metadata(source, target)


async def _copy_metadata(source: str, target: str) -> None:
    """Copy permissions, times and extended attributes; of a link, those of the link itself.

    Set-user-ID bits and capabilities stay behind: a copy may have another owner.
    """

    def on_worker() -> None:
        status = os.lstat(source)
        is_link = stat.S_ISLNK(status.st_mode) and os.path.islink(target)
        if not is_link:
            status = os.stat(source)
        follow = not is_link
        for name in _attributes(source, follow):
            if name.startswith(_KEEP_SECURITY):
                continue
            with _tolerated():
                value = os.getxattr(source, name, follow_symlinks=follow)
                os.setxattr(target, name, value, follow_symlinks=follow)
        if not is_link:
            kept = _FOLDER_PERMISSIONS if stat.S_ISDIR(status.st_mode) else PERMISSIONS
            os.chmod(target, stat.S_IMODE(status.st_mode) & kept)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=follow)

    await current_backend().call(on_worker)


def _attributes(path: str, follow_symlinks: bool) -> list[str]:
    names: list[str] = []
    with _tolerated():
        names = os.listxattr(path, follow_symlinks=follow_symlinks)
    return names


@contextlib.contextmanager
def _tolerated() -> Iterator[None]:
    """Pass over file systems without extended attributes, and over attributes of the system."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise


async def move_tree(source: str, target: str) -> None:
    """Rename, or copy and remove what is on another file system; see ``Path.move``."""
    try:
        same = os.path.samestat(await _paths.stat(source), await _paths.stat(target))
    except OSError:
        same = False
    if same:
        raise _refuse("Source and target are the same file", source, target)
    try:
        await _paths.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    await copy_tree(source, target, follow_symlinks=False, preserve_metadata=True)
    status = await _paths.stat(source, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        await rmtree(source)
    else:
        await _paths.unlink(source)
