"""wsgi.file_wrapper: a file that the kernel sends."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any


class FileWrapper:
    """An iterator over a file's parts, with what the file has of `close`, `seek` and `tell`.

    Returned as it is, and on a regular file, the file is sent from its current position without
    being read into the process.

    Args:
        filelike: An object with `read`.
        blksize: Bytes of a part.
    """

    def __init__(self, filelike: Any, blksize: int = 8192) -> None:
        self.filelike = filelike
        self.blksize = blksize
        # Whoever wraps it, for a range of the file, seeks in it and closes it.
        for name in ("close", "seek", "seekable", "tell"):
            if hasattr(filelike, name):
                setattr(self, name, getattr(filelike, name))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        part: bytes = self.filelike.read(self.blksize)
        if not part:
            raise StopIteration
        return part

    def extent(self) -> tuple[int, int] | None:
        """Return the position and the number of bytes after it; None for another kind of file."""
        try:
            descriptor = self.filelike.fileno()
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return None
            position = self.filelike.tell()
        except (AttributeError, OSError, ValueError):
            return None
        return position, max(0, found.st_size - position)
