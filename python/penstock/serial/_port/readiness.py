"""Waiting until a descriptor can be read or written, as cheaply as the event loop allows.

On asyncio's loops, including uvloop and Penstock's, the descriptor is registered when the first
receive waits, and stays registered. Because the poller is level-triggered:

* The loop's callback reads and passes the bytes to the waiting task. If it only woke the task, the
  descriptor would still be readable when the loop polls before the task runs, and every receive
  would cost a second callback.
* If the callback runs while nobody receives, it unregisters itself until the next receive waits.
  Otherwise unread bytes would make the loop spin. Rejected: reading ahead. The bytes would leave
  the kernel's queue, whose length stops the sender and is what ``input_waiting`` counts.

So a request and its reply make no epoll_ctl call. On other loops (trio) waiting goes through AnyIO.

On Penstock's loop a port that is a plain descriptor receives without this module: the extension's
reader makes the system call, and the loop's dispatcher steps the task.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
import anyio.lowlevel

from penstock._lasting_timer import LastingTimer
from penstock.serial.exceptions import UnsupportedAsyncBackendError

if TYPE_CHECKING:
    from penstock._core import SerialReader

T = TypeVar("T")


class Readiness(Protocol):
    """Waits for one descriptor; at most one reader and one writer at a time."""

    checkpoint: Callable[[], Awaitable[None]]
    deadline: LastingTimer | None
    """Ends the wait of a receive; None where only a cancel scope can."""

    def is_current(self) -> bool:
        """Return whether this object belongs to the running event loop."""

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T | None:
        """Return ``attempt``'s result once it no longer raises BlockingIOError.

        If the task is cancelled after the attempt has succeeded, ``keep`` gets the result. Returns
        None when the deadline has passed.
        """

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        """Write all of ``data``. On cancellation an unknown part of it has been written."""

    def discard_read(self) -> None:
        """Drop what an attempt has read for a task that has not run since.

        If that task is cancelled now, ``keep`` does not get it.
        """

    def close(self, reason: Callable[[], BaseException]) -> None:
        """Unregister the descriptor; a waiting task gets ClosedResourceError or ``reason``."""

    def abandon(self, close: Callable[[], None]) -> None:
        """Unregister a descriptor that nobody waits for, then call ``close``. From any thread."""


def readiness_for(fd: int) -> Readiness:
    """Return the readiness of ``fd`` on the running event loop."""
    try:
        # A trio guest runs inside an asyncio loop, but in no asyncio task.
        on_asyncio = asyncio.current_task() is not None
    except RuntimeError:
        on_asyncio = False
    return AsyncioReadiness(fd, asyncio.get_running_loop()) if on_asyncio else AnyioReadiness(fd)


def native_reader(fd: int) -> SerialReader | None:
    """Return the extension's reader of ``fd``; None on a loop that is not Penstock's."""
    core: Any = sys.modules.get("penstock._core")  # imported wherever Penstock's loop runs
    if core is None:
        return None
    loop = _running_loop()
    return core.SerialReader(loop, fd) if isinstance(loop, core.LoopCore) else None


class AsyncioReadiness:
    """A lasting registration with an asyncio loop. Belongs to the loop's thread."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self.checkpoint: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
        self.deadline: LastingTimer | None = LastingTimer(loop, self._expire)
        self._registered = False
        self._reader: asyncio.Future[Any] | None = None
        self._discarded: asyncio.Future[Any] | None = None
        self._attempt: Callable[[], Any] = _nothing
        self._writer: asyncio.Future[None] | None = None
        self._write: Callable[[memoryview], int] = _nothing
        self._unsent = memoryview(b"")

    def is_current(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T | None:
        if not self._registered:
            try:
                self._loop.add_reader(self._fd, self._on_readable)
            except NotImplementedError as exc:
                raise _cannot_wait(self._loop) from exc
            self._registered = True
        waiting: asyncio.Future[T | None] = self._loop.create_future()
        self._reader = waiting
        self._attempt = attempt
        try:
            return await waiting
        except asyncio.CancelledError:
            has_ended = waiting.done() and not waiting.cancelled() and waiting.exception() is None
            result = waiting.result() if has_ended else None
            if result is not None and waiting is not self._discarded:
                keep(result)
            raise
        finally:
            self._reader = self._discarded = None
            self._attempt = _nothing

    def _on_readable(self) -> None:
        waiting = self._reader
        if waiting is None or waiting.done():
            self._unregister()
            return
        try:
            result = self._attempt()
        except BlockingIOError:
            return
        except Exception as exc:
            waiting.set_exception(exc)
        else:
            waiting.set_result(result)

    def _expire(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def discard_read(self) -> None:
        if self._reader is not None and self._reader.done():
            self._discarded = self._reader

    def _unregister(self) -> None:
        if self._registered:
            self._registered = False
            self._loop.remove_reader(self._fd)

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        # Not kept registered: a port is nearly always writable, so a registration that outlives
        # the wait would call back at once and without need.
        try:
            self._loop.add_writer(self._fd, self._on_writable)
        except NotImplementedError as exc:
            raise _cannot_wait(self._loop) from exc
        waiting = self._loop.create_future()
        self._writer = waiting
        self._write = write
        self._unsent = data
        try:
            await waiting
        finally:
            if self._writer is waiting:
                self._stop_writing()

    def _on_writable(self) -> None:
        waiting = self._writer
        if waiting is None or waiting.done():
            self._stop_writing()
            return
        try:
            self._unsent = self._unsent[self._write(self._unsent) :]
        except BlockingIOError:
            return
        except Exception as exc:
            self._stop_writing()
            waiting.set_exception(exc)
            return
        if not self._unsent:
            self._stop_writing()
            waiting.set_result(None)

    def _stop_writing(self) -> None:
        self._writer = None
        self._write = _nothing
        self._unsent = memoryview(b"")
        self._loop.remove_writer(self._fd)

    def close(self, reason: Callable[[], BaseException]) -> None:
        if self._loop.is_closed():
            return
        if self.deadline is not None:
            self.deadline.cancel()
        self._unregister()
        futures = [self._reader, self._writer]
        if self._writer is not None:
            self._stop_writing()
        for waiting in futures:
            if waiting is not None and not waiting.done():
                waiting.set_exception(reason())

    def abandon(self, close: Callable[[], None]) -> None:
        loop = self._loop
        if loop.is_closed() or not self._registered:
            close()
        elif not loop.is_running() or _running_loop() is loop:
            self._unregister()
            close()
        else:
            # Called by the garbage collector in another thread.
            loop.call_soon_threadsafe(self._unregister_and, close)

    def _unregister_and(self, close: Callable[[], None]) -> None:
        self._unregister()
        close()


class AnyioReadiness:
    """Waiting through AnyIO, for trio and other loops that AnyIO supports."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.checkpoint: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self.deadline: LastingTimer | None = None

    def is_current(self) -> bool:
        return True

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T | None:
        while True:
            await anyio.wait_readable(self._fd)
            try:
                # Nothing is awaited after a successful read, so no cancellation can lose it.
                return attempt()
            except BlockingIOError:
                continue

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        while data:
            await anyio.wait_writable(self._fd)
            try:
                data = data[write(data) :]
            except BlockingIOError:
                continue

    def discard_read(self) -> None:
        """Do nothing: no task is suspended between an attempt and its end."""

    def close(self, reason: Callable[[], BaseException]) -> None:
        anyio.notify_closing(self._fd)

    def abandon(self, close: Callable[[], None]) -> None:
        close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _cannot_wait(loop: asyncio.AbstractEventLoop) -> UnsupportedAsyncBackendError:
    return UnsupportedAsyncBackendError(
        errno.ENOSYS,
        f"the event loop {type(loop).__name__} cannot wait for a serial port (it has no "
        "add_reader); use penstock.run, asyncio's selector loop, uvloop or trio",
    )


def _nothing(*_: object) -> Any:
    raise BlockingIOError
