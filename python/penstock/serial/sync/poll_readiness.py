"""Waiting for a descriptor in the calling thread, until a deadline or until it is closed."""

from __future__ import annotations

import errno
import math
import os
import select
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

__all__ = ["Overdue", "PollReadiness", "deadline_after"]

T = TypeVar("T")

_FOREVER = math.inf
_LONGEST_WAIT_S = 86_400.0  # poll(2) takes 24.8 days at the most; then the wait goes on
_SELECT_LIMIT = 1024  # FD_SETSIZE


class Overdue(Exception):
    """The deadline has passed. Not an OSError, as TimeoutError is: it is no error of the port."""

    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent


def deadline_after(timeout: float | None) -> float:
    """Return the moment of ``time.monotonic()`` that lies *timeout* seconds ahead.

    Raises ValueError for a time-out that is negative or not a number, TypeError for another type.
    """
    if timeout is None:
        return _FOREVER
    try:
        valid = timeout >= 0
    except TypeError:
        sentence = f"timeout must be a number of seconds, or None, not {timeout!r}"
        raise TypeError(sentence) from None
    if not valid:
        raise ValueError(f"timeout must be 0 or more seconds, or None, not {timeout}")
    return time.monotonic() + timeout


class PollReadiness:
    """The blocking counterpart of the event loops' waiting rooms.

    Its coroutines never suspend: they block. One thread may wait to read while another waits to
    write; :meth:`close` wakes both from any thread.
    """

    def __init__(self, fd: int) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Made once, not for each wait: only one thread uses either at a time.
        self._readable = _Waiter(self._wake, fd, select.POLLIN)
        self._writable = _Waiter(self._wake, fd, select.POLLOUT)
        self.read_deadline = _FOREVER
        self.write_deadline = _FOREVER
        self.checkpoint: Callable[[], Awaitable[None]] = _no_checkpoint

    def is_current(self) -> bool:
        return True

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        while True:
            if not self.wait_readable(self.read_deadline):
                raise Overdue
            try:
                return attempt()
            except BlockingIOError:
                continue

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        while data:
            if not self._wait(self._writable, self.write_deadline):
                raise Overdue(len(data))
            try:
                data = data[write(data) :]
            except BlockingIOError:
                continue

    def sleep_until(self, moment: float) -> None:
        """Sleep until *moment*; raises ClosedResourceError when closed meanwhile."""
        self._wait(_Waiter(self._wake, -1, 0), moment)

    def wait_readable(self, deadline: float) -> bool:
        """Return whether the port became readable by then; raises ClosedResourceError."""
        return self._wait(self._readable, deadline)

    def wait_for(self, fd: int, deadline: float) -> bool:
        """Return whether *fd* became readable by then; raises ClosedResourceError."""
        return self._wait(_Waiter(self._wake, fd, select.POLLIN), deadline)

    def close(self, reason: Callable[[], BaseException]) -> None:
        """Wake whoever waits, now and ever after, with ClosedResourceError."""
        os.eventfd_write(self._wake, 1)

    def abandon(self, close: Callable[[], None]) -> None:
        close()

    def discard(self) -> None:
        """Close the descriptor that wakes; nobody may wait any more."""
        os.close(self._wake)

    def _wait(self, waiter: _Waiter, deadline: float) -> bool:
        while True:
            left = None
            if deadline != _FOREVER:
                left = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT_S)
            try:
                ready = waiter.wait(left)
            except OSError as exc:
                if exc.errno != errno.EBADF:
                    raise
                # Whoever closed the port was quicker: what wakes is gone already.
                raise anyio.ClosedResourceError from None
            if self._wake in ready:
                raise anyio.ClosedResourceError
            if ready:
                return True
            if deadline <= time.monotonic():
                return False


class _Waiter:
    """Waits for one event of one descriptor, or for the descriptor that wakes.

    poll(2) counts milliseconds, so a wait with a limit goes through select(2), which is a fraction
    of a millisecond nearer to it, unless a number is too large for that.
    """

    def __init__(self, wake: int, fd: int, event: int) -> None:
        self._poll = select.poll()
        self._poll.register(wake, select.POLLIN)
        if event:
            self._poll.register(fd, event)
        self._small = max(wake, fd) < _SELECT_LIMIT
        self._reading = [wake, fd] if event == select.POLLIN else [wake]
        self._writing = [fd] if event == select.POLLOUT else []

    def wait(self, seconds: float | None) -> list[int]:
        if seconds is not None and self._small:
            readable, writable, _ = select.select(self._reading, self._writing, (), seconds)
            return readable + writable
        # Rounded up: to wake early would mean another round.
        limit = None if seconds is None else math.ceil(seconds * 1000)
        return [fd for fd, _ in self._poll.poll(limit)]


async def _no_checkpoint() -> None:
    pass
