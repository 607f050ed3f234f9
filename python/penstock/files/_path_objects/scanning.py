"""Folders read with the contents of their files: :func:`scan`."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING

from anyio.abc import AsyncResource

from penstock._core import FolderEntry, ReadyValue, begin_scan, scan_folder
from penstock.files._path_objects.batches import Batches

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import StrPath

__all__ = ["FolderEntry", "Scan", "scan"]

_LARGEST = 16 << 20
_BLOCK = 4096
_WEIGHT = 256


class Scan(AsyncIterator[FolderEntry], AsyncResource):
    """The entries of a folder: see :func:`scan`."""

    def __init__(self, folder: str, contents: bool, largest: int) -> None:
        """Begin nothing: the first item opens the folder."""
        self._ready: deque[FolderEntry] = deque()
        self._batches = Batches(lambda: _read(folder, contents, largest), weight=_weight)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[FolderEntry]:
        if self._ready:
            return ReadyValue(self._ready.popleft())
        return self._next()

    async def aclose(self) -> None:
        """End the iteration; the folder is closed, once the worker has left it."""
        self._ready.clear()
        await self._batches.aclose()

    async def _next(self) -> FolderEntry:
        _, entries = await anext(self._batches)
        self._ready.extend(entries)
        return self._ready.popleft()


def _read(folder: str, contents: bool, largest: int) -> Iterator[tuple[int, list[FolderEntry]]]:
    """Read batches, on a worker; none is empty."""
    sys.audit("os.scandir", folder)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        state = begin_scan(fd, contents, largest)
        while (found := scan_folder(state, folder))[1]:
            yield found
    finally:
        os.close(fd)


def _weight(batch: tuple[int, list[FolderEntry]]) -> int:
    return _WEIGHT + batch[0] // _BLOCK


def scan(path: StrPath, *, contents: bool = False, largest: int = _LARGEST) -> Scan:
    """Iterate over what is in a folder, in no order, with the contents of its files if asked.

    Each entry is a tuple ``(name, kind, content)``. ``kind`` is "file", "folder", "link" or
    "other". ``content`` is the bytes of a file; None without ``contents``, for what is not a file
    (links are not followed), and for a file of more than ``largest`` bytes.

    A worker thread reads a batch of entries and files at a time, by the folder's descriptor and
    without the GIL. It is ahead of the program by at most 4096 entries, and by a few MiB beside the
    largest file. Files that are not in the page cache are read one after the other; ``read_files``
    reads several at a time.

    A file that is removed meanwhile is left out, if it had not been read.

    Args:
        path: the folder.
        contents: also read the files.
        largest: the size up to which files are read, in bytes.

    Cancellation: a cancelled ``anext`` returns at once and ends the iteration; nothing stays open.

    Raises:
        OSError: at the first item, if the folder cannot be read; or for a file that cannot be read,
            with its path, after those before it.
        ValueError: if ``largest`` is negative.
    """
    folder = os.fspath(path)
    if not isinstance(folder, str):
        raise TypeError(f"the path of a folder to scan must be a string, not {folder!r}")
    if largest < 0:
        raise ValueError(f"largest {largest} is negative: no file could be read")

    return Scan(folder, contents, largest)
