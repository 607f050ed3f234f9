"""Waiting for changes of a file that another process writes."""

from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Self

import anyio

__all__ = ["FileGrowth"]

# inotify(7), <sys/inotify.h>
_IN_MODIFY, _IN_ATTRIB, _IN_MOVE_SELF, _IN_DELETE_SELF = 0x2, 0x4, 0x800, 0x400
_IN_CLOEXEC, _IN_NONBLOCK = os.O_CLOEXEC, os.O_NONBLOCK
_EVENTS = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class FileGrowth:
    """Changes of one file, from its construction on; none is missed between two waits.

    Raises:
        OSError: with the file's name, if it cannot be watched.
    """

    def __init__(self, path: str) -> None:
        self._fd = _checked(_libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK), path)
        try:
            # A removal changes the number of links, which is an attribute.
            events = _IN_MODIFY | _IN_ATTRIB | _IN_MOVE_SELF | _IN_DELETE_SELF
            _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), events), path)
        except BaseException:
            os.close(self._fd)
            raise

    async def wait(self) -> None:
        """Return when the file has changed since the last return, or since the construction.

        Cancellation: raised at once, and no change is missed.
        """
        await anyio.wait_readable(self._fd)
        try:
            while len(os.read(self._fd, _EVENTS)) > _EVENTS // 2:
                pass
        except BlockingIOError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._fd)


def _checked(result: int, path: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
