"""The files of listening Unix sockets: who may remove them, and when."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat


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


def remove_abandoned(path: str) -> None:
    """Remove the file of a socket at which nobody listens, as a kill leaves it.

    Raises:
        OSError: EADDRINUSE if somebody listens there, EEXIST if the name is that of something else
            than a socket.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise OSError(errno.EEXIST, f"{os.path.basename(path)} is not a socket")
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.setblocking(False)
        try:
            attempt.connect(path)
        except ConnectionRefusedError:
            with contextlib.suppress(FileNotFoundError):
                if _identity(path) == (status.st_dev, status.st_ino):
                    os.unlink(path)
            return
        except BlockingIOError:
            pass  # its queue is full
    raise OSError(errno.EADDRINUSE, "another process listens there")


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
