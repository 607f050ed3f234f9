"""Waiting until a descriptor can be read or written, as cheaply as the event loop allows.

On asyncio's loops (uvloop and Penstock's among them) the descriptor is registered when the first
receive parks, and stays registered. Two things follow from the poller being level-triggered:

* The loop's callback reads by itself and hands the bytes to the parked task. Were it only to
  wake the task, the descriptor would still be readable when the loop polls again before the
  task runs, and every receive would cost a second, useless callback.
* When it fires and nobody receives, it unregisters itself until the next receive parks.
  Otherwise unread bytes would make the loop spin. (Reading ahead instead was rejected: the bytes
  would leave the kernel's queue, whose length throttles the sender and is what
  ``input_waiting`` counts.)

A request-and-reply exchange therefore makes no epoll_ctl call at all. Elsewhere (trio) waiting
goes through AnyIO.

On Penstock's loop a port that is a plain descriptor does not even come here to receive: the
extension's reader makes the system call, and the loop's dispatcher continues the task.
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

from penstock.serial.exceptions import UnsupportedAsyncBackendError

if TYPE_CHECKING:
    from penstock._core import SerialReader

__all__ = ["Readiness", "native_reader", "readiness_for"]

T = TypeVar("T")


class Readiness(Protocol):
    """One descriptor's waiting room: at most one reader and one writer at a time."""

    checkpoint: Callable[[], Awaitable[None]]

    def is_current(self) -> bool:
        """Whether this object still serves the running event loop."""

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        """Return *attempt*'s result once it no longer raises BlockingIOError.

        If the task is cancelled after the attempt has succeeded, *keep* gets the result.
        """

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        """Write all of *data*. On cancellation an unknown part of it has been written."""

    def close(self, reason: Callable[[], BaseException]) -> None:
        """Forget the descriptor; whoever waits for it gets ClosedResourceError or *reason*."""

    def abandon(self, close: Callable[[], None]) -> None:
        """Forget a descriptor that nobody waits for, then call *close*. From any thread."""


def readiness_for(fd: int) -> Readiness:
    """Return the waiting room for the running event loop."""
    try:
        # A trio guest runs inside an asyncio loop, but in no asyncio task.
        on_asyncio = asyncio.current_task() is not None
    except RuntimeError:
        on_asyncio = False
    return AsyncioReadiness(fd, asyncio.get_running_loop()) if on_asyncio else AnyioReadiness(fd)


def native_reader(fd: int) -> SerialReader | None:
    """Return the extension's reader of *fd* for the running loop, None where that is another's."""
    core: Any = sys.modules.get("penstock._core")  # who runs Penstock's loop has imported it
    if core is None:
        return None
    loop = _running_loop()
    return core.SerialReader(loop, fd) if isinstance(loop, core.LoopCore) else None


class AsyncioReadiness:
    """Persistent registration with an asyncio loop. Belongs to the loop's thread."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._loop = loop
        self.checkpoint: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
        self._registered = False
        self._reader: asyncio.Future[Any] | None = None
        self._attempt: Callable[[], Any] = _nothing
        self._writer: asyncio.Future[None] | None = None
        self._write: Callable[[memoryview], int] = _nothing
        self._unsent = memoryview(b"")

    def is_current(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        if not self._registered:
            try:
                self._loop.add_reader(self._fd, self._on_readable)
            except NotImplementedError as exc:
                raise _cannot_wait(self._loop) from exc
            self._registered = True
        parked: asyncio.Future[T] = self._loop.create_future()
        self._reader = parked
        self._attempt = attempt
        try:
            return await parked
        except asyncio.CancelledError:
            if parked.done() and not parked.cancelled() and parked.exception() is None:
                keep(parked.result())
            raise
        finally:
            self._reader = None
            self._attempt = _nothing

    def _on_readable(self) -> None:
        parked = self._reader
        if parked is None or parked.done():
            self._unregister()
            return
        try:
            result = self._attempt()
        except BlockingIOError:
            return
        except Exception as exc:
            parked.set_exception(exc)
        else:
            parked.set_result(result)

    def _unregister(self) -> None:
        if self._registered:
            self._registered = False
            self._loop.remove_reader(self._fd)

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        # Not kept registered: a port can be written to nearly always, so a registration that
        # outlives the wait would fire at once and for nothing.
        try:
            self._loop.add_writer(self._fd, self._on_writable)
        except NotImplementedError as exc:
            raise _cannot_wait(self._loop) from exc
        parked = self._loop.create_future()
        self._writer = parked
        self._write = write
        self._unsent = data
        try:
            await parked
        finally:
            if self._writer is parked:
                self._stop_writing()

    def _on_writable(self) -> None:
        parked = self._writer
        if parked is None or parked.done():
            self._stop_writing()
            return
        try:
            self._unsent = self._unsent[self._write(self._unsent) :]
        except BlockingIOError:
            return
        except Exception as exc:
            self._stop_writing()
            parked.set_exception(exc)
            return
        if not self._unsent:
            self._stop_writing()
            parked.set_result(None)

    def _stop_writing(self) -> None:
        self._writer = None
        self._write = _nothing
        self._unsent = memoryview(b"")
        self._loop.remove_writer(self._fd)

    def close(self, reason: Callable[[], BaseException]) -> None:
        if self._loop.is_closed():
            return
        self._unregister()
        waiting = [self._reader, self._writer]
        if self._writer is not None:
            self._stop_writing()
        for parked in waiting:
            if parked is not None and not parked.done():
                parked.set_exception(reason())

    def abandon(self, close: Callable[[], None]) -> None:
        loop = self._loop
        if loop.is_closed() or not self._registered:
            close()
        elif not loop.is_running() or _running_loop() is loop:
            self._unregister()
            close()
        else:
            # The garbage collector called from another thread.
            loop.call_soon_threadsafe(self._unregister_and, close)

    def _unregister_and(self, close: Callable[[], None]) -> None:
        self._unregister()
        close()


class AnyioReadiness:
    """Waiting through AnyIO, for trio and any other loop that AnyIO may learn."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.checkpoint: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    def is_current(self) -> bool:
        return True

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        while True:
            await anyio.wait_readable(self._fd)
            try:
                # Nothing is awaited after a successful read: no cancellation can lose it.
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
