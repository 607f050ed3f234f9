"""An ioctl that blocks, done beside the caller and ended when the caller no longer wants it.

``tcdrain`` and ``TIOCMIWAIT`` block for as long as the far end likes. The extension does them in
a bare thread of its own that can be cancelled inside the system call. Without the extension, or
where a stand-in answers, a daemon thread does them; one that was cancelled ends when its call does.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

from penstock.serial import ttyioctl

try:
    from penstock._core import IoctlThread
except ImportError:
    _has_native = False
else:
    _has_native = True

__all__ = ["PendingIoctl", "begin_ioctl"]


class PendingIoctl(Protocol):
    """A blocking ioctl on its way."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once the ioctl has returned."""

    def finish(self) -> None:
        """Raise the ioctl's OSError if it failed. Only once :meth:`fileno` is readable."""

    def cancel(self) -> None:
        """End it and let go of its descriptors; never blocks. Also needed after :meth:`finish`."""


def begin_ioctl(fd: int, request: int, argument: int) -> PendingIoctl:
    """Begin a blocking ioctl, with an integer argument, on a duplicate of *fd*."""
    if _has_native and not ttyioctl.has_stand_in():
        return IoctlThread(fd, request, argument)
    return _ThreadedIoctl(fd, request, argument)


class _ThreadedIoctl:
    def __init__(self, fd: int, request: int, argument: int) -> None:
        self._error: OSError | None = None
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Its own descriptors, each closed by whichever side comes last: the thread may outlive
        # the port, whose number the kernel would give to the next file that is opened.
        self._users = 2
        self._lock = threading.Lock()
        self._fd = os.dup(fd)
        threading.Thread(
            target=self._run, args=(request, argument), name="penstock.serial ioctl", daemon=True
        ).start()

    def fileno(self) -> int:
        return self._done

    def finish(self) -> None:
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        self._release()

    def _run(self, request: int, argument: int) -> None:
        try:
            ttyioctl.ioctl(self._fd, request, argument)
        except OSError as exc:
            self._error = exc
        finally:
            os.eventfd_write(self._done, 1)
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
        os.close(self._fd)
        os.close(self._done)
