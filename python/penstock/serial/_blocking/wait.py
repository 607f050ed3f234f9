"""Waiting for a descriptor in the calling thread; a deadline or another thread ends it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import time

__all__ = ["FOREVER", "Overdue", "Wait", "WakeUp", "deadline_after"]

FOREVER = math.inf
"""The deadline of a wait without a limit."""

_LONGEST_WAIT_S = 86_400.0  # poll(2) takes at most 24.8 days; after a day the wait is renewed
_SHORT_S = 0.1
_SELECT_LIMIT = 1024  # FD_SETSIZE


class Overdue(Exception):
    """The deadline has passed. Not an OSError, as TimeoutError is: the port has no error.

    Attributes:
        unsent: How many bytes a write has left.
    """

    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent


def deadline_after(timeout: float | None) -> float:
    """Return the moment of ``time.monotonic()`` that is ``timeout`` seconds ahead.

    Raises:
        ValueError: The timeout is negative or NaN.
        TypeError: It is no number.
    """
    if timeout is None:
        return FOREVER
    try:
        valid = timeout >= 0
    except TypeError:
        sentence = f"timeout must be a number of seconds, or None, not {timeout!r}"
        raise TypeError(sentence) from None
    if not valid:
        raise ValueError(f"timeout must be 0 or more seconds, or None, not {timeout}")
    return time.monotonic() + timeout


class WakeUp:
    """A descriptor that ends the waits of other threads. Thread-safe."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.is_set = False

    def set(self) -> None:
        """End every wait, present and future, until :meth:`clear`."""
        os.eventfd_write(self.fd, 1)
        self.is_set = True  # after the write, so that clear() finds something to read

    def clear(self) -> None:
        """Let the next wait begin."""
        self.is_set = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Close the descriptor. Nobody may wait any more."""
        os.close(self.fd)


class Wait:
    """Waits for one event of one descriptor, or for a :class:`WakeUp`. One thread at a time.

    poll(2) counts milliseconds. So a wait with a short limit uses select(2), which costs more and
    ends a fraction of a millisecond nearer to it, unless a descriptor is too large for select.
    """

    def __init__(self, wake: WakeUp, fd: int = -1, event: int = 0) -> None:
        """Prepare waits for ``event`` (``select.POLLIN`` or ``POLLOUT``) of ``fd``; 0: for none."""
        self._wake = wake.fd
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        if event:
            self._poll.register(fd, event)
        self._small = max(self._wake, fd) < _SELECT_LIMIT
        self._reading = [self._wake, fd] if event == select.POLLIN else [self._wake]
        self._writing = [fd] if event == select.POLLOUT else []

    def until(self, deadline: float) -> bool | None:
        """Wait; return True once ready, False at ``deadline``, None if woken up."""
        wake = self._wake
        while True:
            try:
                if deadline == FOREVER:
                    ready = [fd for fd, _ in self._poll.poll()]
                else:
                    left = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT_S)
                    if left < _SHORT_S and self._small:
                        readable, writable, _ = select.select(
                            self._reading, self._writing, (), left
                        )
                        ready = readable or writable
                    else:
                        # Rounded up: waking early would cost another call.
                        ready = [fd for fd, _ in self._poll.poll(math.ceil(left * 1000))]
            except OSError as exc:
                if exc.errno != errno.EBADF:
                    raise
                return None  # the port was closed, and the descriptors with it, before the call
            if wake in ready:
                return None
            if ready:
                return True
            if deadline <= time.monotonic():
                return False
