"""How a port's coroutines wait: suspended on an event loop, or blocked in a thread.

Everything that takes longer than a read or a write (draining, a break, line changes, RS-485,
settings) is written once, as a coroutine on a :class:`Waiter`. The synchronous port runs the same
coroutines on a waiter that blocks, so that they never suspend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from penstock.serial._port.worker_calls import run_shielded, run_to_end
from penstock.serial._tty.pending_ioctl import PendingIoctl
from penstock.serial.exceptions import errno_to_exception

__all__ = ["EventLoopWaiter", "Waiter", "wait_for_ioctl"]

T = TypeVar("T")


class Waiter(Protocol):
    """The ways of waiting. Closing the port ends each with :class:`anyio.ClosedResourceError`."""

    async def checkpoint(self) -> None:
        """Let other tasks run."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``, which may be infinite."""

    async def wait_readable(self, fd: int, seconds: float) -> bool:
        """Wait at most ``seconds``; return whether ``fd`` became readable."""

    async def call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function that a driver may block; cancelled, wait for its end or abandon it."""

    async def call_to_end(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        """Call a function that changes the device; see :func:`run_to_end`."""

    async def call_shielded(self, function: Callable[..., T], *args: object) -> T:
        """Call a function also when cancelled; see :func:`run_shielded`."""

    def close(self) -> None:
        """End every wait, present and future."""


async def wait_for_ioctl(
    waiter: Waiter, pending: PendingIoctl, path: str, seconds: float = math.inf
) -> bool:
    """Wait at most ``seconds`` for an ioctl; return whether it has returned.

    Raises:
        SerialError: The ioctl failed.
    """
    if not await waiter.wait_readable(pending.fileno(), seconds):
        return False
    try:
        pending.finish()
    except OSError as exc:
        raise errno_to_exception(exc, context="ioctl", path=path) from exc
    return True


class EventLoopWaiter:
    """Waits on the event loops that AnyIO knows; calls into drivers are made in worker threads."""

    def __init__(self) -> None:
        self._closing: anyio.Event | None = None
        self._closed = False
        self._watched: set[int] = set()

    async def checkpoint(self) -> None:
        await checkpoint()

    async def sleep(self, seconds: float) -> None:
        if self._closing is None:
            self._closing = anyio.Event()
        if not self._closed:
            with anyio.move_on_after(seconds):
                await self._closing.wait()
        if self._closed:
            raise anyio.ClosedResourceError

    async def wait_readable(self, fd: int, seconds: float) -> bool:
        self._watched.add(fd)
        try:
            with anyio.move_on_after(seconds):
                await anyio.wait_readable(fd)
                return True
        finally:
            self._watched.discard(fd)
        return False

    async def call(self, function: Callable[..., T], *args: object) -> T:
        return await anyio.to_thread.run_sync(function, *args)

    async def call_to_end(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        return await run_to_end(function, *args, undo=undo)

    async def call_shielded(self, function: Callable[..., T], *args: object) -> T:
        return await run_shielded(function, *args)

    def close(self) -> None:
        self._closed = True
        if self._closing is not None:
            self._closing.set()
        for fd in self._watched:
            anyio.notify_closing(fd)
