"""Removing a tree of folders: :func:`rmtree`."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

from penstock._durable_files import with_path
from penstock.files._backend import current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._path_objects.walking import OnError

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_ENTRIES_AT_ONCE = 1024
_LONGEST_STEP = 0.01  # seconds
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


async def rmtree(
    path: StrOrBytesPath, *, ignore_errors: bool = False, on_error: OnError | None = None
) -> None:
    """Remove a folder with all that is in it, as ``shutil.rmtree`` does.

    No symbolic link is followed, not even one that another process puts in a folder's place
    meanwhile.

    Args:
        path: the folder.
        ignore_errors: leave what cannot be removed.
        on_error: called on the loop with the OSError of what cannot be removed, which stays; the
            removal goes on. An exception of it ends the removal.

    Cancellation: ends after the entry that is being removed. What is not yet removed stays.

    Raises:
        OSError: with the path of the entry; NotADirectoryError if ``path`` is a file or a link.
    """
    given = os.fsdecode(path)
    name = given.rstrip("/") or given[:1]  # of "link/", the kernel would follow the link
    backend = current_backend()
    report = (lambda error: None) if ignore_errors else on_error

    async def work(stop: Stop) -> None:
        removal = _removal(name, stop)
        try:
            ended = False
            while not ended:
                ended, errors = await stop.step(backend.call(lambda: _advance(removal)))
                for error in errors:
                    if report is None:
                        raise error
                    report(error)
        finally:
            await backend.call(removal.close)

    await run_whole(work)


def _advance(removal: Iterator[OSError | None]) -> tuple[bool, list[OSError]]:
    """Remove for 10 ms at most, or until something fails; return whether that was all."""
    end = monotonic() + _LONGEST_STEP
    for error in removal:
        if error is not None:
            return False, [error]
        if monotonic() > end:
            return False, []
    return True, []


class _Folder:
    """A folder that is being emptied, open, so that nobody can put another in its place."""

    def __init__(self, fd: int, path: str, name: str) -> None:
        self.fd = fd
        self.path = path
        self.name = name
        self.kept: set[str] = set()
        self._entries: list[os.DirEntry[str]] = []
        self._all_read = False

    def take(self) -> os.DirEntry[str] | None:
        """Return an entry that is still there, or None if only what cannot be removed is left."""
        if not self._entries and not self._all_read:
            # Entries are removed while they are read, so the rest is read anew: the kernel may skip
            # some otherwise. A folder of any size takes little memory.
            with os.scandir(self.fd) as entries:
                wanted = (entry for entry in entries if entry.name not in self.kept)
                self._entries = list(islice(wanted, _ENTRIES_AT_ONCE))
            self._all_read = len(self._entries) < _ENTRIES_AT_ONCE
        return self._entries.pop() if self._entries else None


def _removal(top: str, stop: Stop) -> Generator[OSError | None, None, None]:
    """Remove a tree; after each entry, yield None or the error for which it stays."""
    open_folders: list[_Folder] = []
    try:
        try:
            open_folders.append(_Folder(os.open(top, _FOLDER), top, top))
        except OSError as error:
            yield _explained(error, top)
            return
        while open_folders:
            if stop.requested:
                return
            folder = open_folders[-1]
            try:
                entry = folder.take()
            except OSError as error:
                entry = None
                yield with_path(error, folder.path)
            if entry is None:
                open_folders.pop()
                os.close(folder.fd)
                yield _remove_emptied(folder, open_folders)
                continue
            path = os.path.join(folder.path, entry.name)
            try:
                if entry.is_dir(follow_symlinks=False):
                    fd = os.open(entry.name, _FOLDER, dir_fd=folder.fd)
                    open_folders.append(_Folder(fd, path, entry.name))
                    continue
                os.unlink(entry.name, dir_fd=folder.fd)
            except FileNotFoundError:
                yield None  # another process was faster
            except OSError as error:
                folder.kept.add(entry.name)
                yield with_path(error, path)
            else:
                yield None
    finally:
        for folder in open_folders:
            os.close(folder.fd)


def _explained(error: OSError, top: str) -> OSError:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        try:
            is_link = stat.S_ISLNK(os.lstat(top).st_mode)
        except OSError:
            is_link = False
        if is_link:
            return NotADirectoryError(
                errno.ENOTDIR, "is a symbolic link; unlink it, or remove its target", top
            )
    return with_path(error, top)


def _remove_emptied(folder: _Folder, above: list[_Folder]) -> OSError | None:
    try:
        if above:
            os.rmdir(folder.name, dir_fd=above[-1].fd)
        else:
            os.rmdir(folder.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if above:
            above[-1].kept.add(folder.name)
        if folder.kept and error.errno == errno.ENOTEMPTY:
            return None  # the reason was told
        return with_path(error, folder.path)
    return None
