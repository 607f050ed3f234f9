"""A blocking ioctl in a thread of its own, which the caller can cancel.

``tcdrain`` and ``TIOCMIWAIT`` block for as long as the far end decides. The extension runs them in
a native thread that can be cancelled inside the system call. Without the extension, or for an
emulated driver, a daemon thread runs them. If that is cancelled, it ends when its call returns.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

from penstock.serial._tty import ttyioctl

try:
    from penstock._core import IoctlThread
except ImportError:
    _has_native = False
else:
    _has_native = True

__all__ = ["PendingIoctl", "begin_ioctl"]


class PendingIoctl(Protocol):
    """A blocking ioctl that has been started."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once the ioctl has returned."""

    def finish(self) -> None:
        """Raise the ioctl's OSError if it failed. Only once :meth:`fileno` is readable."""

    def cancel(self) -> None:
        """End it and close its descriptors. Never blocks. Also needed after :meth:`finish`."""


def begin_ioctl(fd: int, request: int, argument: int) -> PendingIoctl:
    """Start a blocking ioctl with an integer argument on a duplicate of ``fd``."""
    if _has_native and not ttyioctl.driver_replaced():
        return IoctlThread(fd, request, argument)
    return _ThreadedIoctl(fd, request, argument)


class _ThreadedIoctl:
    def __init__(self, fd: int, request: int, argument: int) -> None:
        self._error: OSError | None = None
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Descriptors of its own, closed by the side that ends last. The thread may outlive the
        # port, and the kernel gives the port's number to the next file that is opened.
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
