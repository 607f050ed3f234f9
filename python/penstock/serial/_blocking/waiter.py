"""The waiter that blocks, and what runs a coroutine on it."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from penstock.serial._blocking.wait import FOREVER, Overdue, Wait, WakeUp

__all__ = ["BlockingWaiter", "run"]

T = TypeVar("T")


class BlockingWaiter:
    """Waits in the calling thread, at most until ``deadline``.

    A wait that ends at the deadline returns, so that its caller checks its condition once more. A
    wait that begins after the deadline raises :class:`Overdue`.

    Drivers are called directly. A driver that has been called cannot be interrupted, so those
    calls return when it answers, whatever the deadline.
    """

    def __init__(self, wake: WakeUp | None = None, deadline: float = FOREVER) -> None:
        """End every wait once ``wake`` is set, because the port is closed. None: no wake-up."""
        self._wake = wake
        self.deadline = deadline

    async def checkpoint(self) -> None:
        pass

    async def sleep(self, seconds: float) -> None:
        self._wait(-1, 0, seconds)

    async def wait_readable(self, fd: int, seconds: float) -> bool:
        return self._wait(fd, select.POLLIN, seconds)

    def _wait(self, fd: int, event: int, seconds: float) -> bool:
        now = time.monotonic()
        if now >= self.deadline:
            raise Overdue
        with contextlib.ExitStack() as stack:
            wake = self._wake
            if wake is None:
                wake = WakeUp()
                stack.callback(wake.close)
            ready = Wait(wake, fd, event).until(min(now + seconds, self.deadline))
        if ready is None:
            raise anyio.ClosedResourceError
        return ready

    async def call(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    async def call_to_end(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        return function(*args)

    async def call_shielded(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    def close(self) -> None:
        """Do nothing: closing the device sets the wake-up."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose waits block."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise AssertionError(f"{coroutine!r} suspended without an event loop")
