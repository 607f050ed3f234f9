"""The file of a listening Unix socket, which is removed only by the process that has made it."""

from __future__ import annotations

import contextlib
import os

__all__ = ["SocketFile"]


class SocketFile:
    """A file that a socket was bound to, as it is now.

    A successor may take the place over while this process still ends: it removes the file and binds
    its own.

    Args:
        path: Its path.

    Raises:
        OSError: If there is none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def remove(self) -> None:
        """Remove it, if it is still the same. Call it while the socket is open.

        Its number may be another file's after that.
        """
        with contextlib.suppress(OSError):
            if _identity(self._path) == self._identity:
                os.unlink(self._path)


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
