"""Waiting for a descriptor in one thread, in a way that another thread can end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import time

__all__ = ["InterruptibleWait"]

_LONGEST_WAIT_S = 86_400.0  # poll(2) takes 24.8 days at the most; then the wait goes on


class InterruptibleWait:
    """Waits for one direction of a descriptor. One thread waits; any may :meth:`interrupt`."""

    def __init__(self, fd: int, event: int) -> None:
        """*event* is ``select.POLLIN`` or ``select.POLLOUT``."""
        self._interrupted = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asked = False
        self._poll = select.poll()
        self._poll.register(self._interrupted, select.POLLIN)
        self._poll.register(fd, event)

    def wait(self, deadline: float | None) -> bool | None:
        """Return True once ready, False at *deadline* (monotonic), None when interrupted.

        An interruption that came before the wait ends it at once.
        """
        while True:
            milliseconds = None
            if deadline is not None:
                left = min(deadline - time.monotonic(), _LONGEST_WAIT_S)
                milliseconds = max(0, math.ceil(left * 1000))
            ready = self._poll.poll(milliseconds)
            for fd, _ in ready:
                if fd == self._interrupted:
                    self._consume()
                    return None
            if ready:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def sleep(self, deadline: float) -> bool:
        """Return True at *deadline*, False when interrupted; ready or not."""
        interruption = select.poll()
        interruption.register(self._interrupted, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if interruption.poll(math.ceil(min(left, _LONGEST_WAIT_S) * 1000)):
                self._consume()
                return False
        return True

    def interrupt(self) -> None:
        os.eventfd_write(self._interrupted, 1)
        self._asked = True  # after it: who sees this finds something to read

    def forget(self) -> None:
        """Let an interruption that has found nobody waiting concern no later wait."""
        if self._asked:
            self._consume()

    def _consume(self) -> None:
        self._asked = False
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._interrupted)

    def close(self) -> None:
        os.close(self._interrupted)
