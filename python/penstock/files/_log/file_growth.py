"""Waiting for changes of a file that another process writes."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio

from penstock.files._watching.inotify import Inotify, Mask

# A removal changes the number of links, which is an attribute.
_EVENTS = Mask.MODIFY | Mask.ATTRIB | Mask.MOVE_SELF | Mask.DELETE_SELF


class FileGrowth:
    """Changes of one file, from its construction on; none is missed between two waits.

    Raises:
        OSError: with the file's name, if it cannot be watched.
    """

    def __init__(self, path: str) -> None:
        self._inotify = Inotify()
        try:
            self._inotify.add(path, _EVENTS)
        except BaseException:
            self._inotify.close()
            raise

    async def wait(self) -> None:
        """Return when the file has changed since the last return, or since the construction.

        Cancellation: raised at once, and no change is missed.
        """
        await anyio.wait_readable(self._inotify.fd)
        self._inotify.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._inotify.close()
