"""How a port's coroutines wait: suspended on an event loop, or blocked in a thread.

Everything that takes longer than a read or a write (draining, a break, line changes, RS-485,
settings) is written once, as a coroutine on a :class:`Waiter`. The synchronous port runs the same
coroutines on a waiter that blocks, so that they never suspend.

Calls that change a device are made in a worker thread and never abandoned. A call into a driver
cannot be interrupted, so a caller that is cancelled meanwhile waits for its end. Otherwise a port
would follow settings that are not in force, and a break would begin that nobody ends. AnyIO does
this by a shield against its own cancellation. asyncio's (``Task.cancel``, ``asyncio.timeout``)
ignores shields and would leave the thread running.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint

from penstock._cancellation import wait_despite_cancellation
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial.exceptions import errno_to_exception

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


async def run_to_end(
    function: Callable[..., T], *args: object, undo: Callable[[T], object] | None = None
) -> T:
    """Call ``function`` in a worker thread; if cancelled, wait for its end if it has begun.

    After a cancellation ``undo`` gets its result, in a worker thread as well.
    """
    call: Future[T] = Future()
    try:
        await anyio.to_thread.run_sync(_perform, call, function, args)
    except asyncio.CancelledError as cancelled:
        if call.cancel():
            raise
        await _wait_until_ended(call)
        failure = call.exception()
        if failure is None and undo is not None:
            try:
                await run_shielded(undo, call.result())
            except OSError as exc:
                failure = exc
        raise cancelled from failure
    return _result_of(call)


async def run_shielded(function: Callable[..., T], *args: object) -> T:
    """Call ``function`` in a worker thread, even if cancelled before or while it runs.

    The thread is none of the shared ones, which may all be blocked in drivers.
    """
    call: Future[T] = Future()
    with anyio.CancelScope(shield=True):
        try:
            await anyio.to_thread.run_sync(
                _perform, call, function, args, limiter=CapacityLimiter(1)
            )
        except asyncio.CancelledError as cancelled:
            if call.cancel():
                call = Future()
                threading.Thread(target=_perform, args=(call, function, args)).start()
            await _wait_until_ended(call)
            raise cancelled from call.exception()
    return _result_of(call)


def _perform(call: Future[T], function: Callable[..., T], args: tuple[Any, ...]) -> None:
    if not call.set_running_or_notify_cancel():
        return
    try:
        call.set_result(function(*args))
    except BaseException as exc:
        call.set_exception(exc)


def _result_of(call: Future[T]) -> T:
    try:
        return call.result()
    finally:
        del call  # the error's traceback refers to this frame: avoids a reference cycle


async def _wait_until_ended(call: Future[Any]) -> None:
    # Only for asyncio's cancellation: trio's does not interrupt a call that has begun.
    loop = asyncio.get_running_loop()
    ended = anyio.Event()
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    await wait_despite_cancellation(ended)
