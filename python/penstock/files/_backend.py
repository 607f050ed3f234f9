"""The engine that does the file operations of a running event loop: :func:`current_backend`.

On Penstock's loop it is the loop's own engine: io_uring, or worker threads where the kernel or a
container refuses the ring (``PENSTOCK_FILES=auto|uring|threads`` overrides the choice). On any
other asyncio loop, uvloop and trio it is an engine of worker threads beside the loop, which ends
with the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock import _core

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath, WriteableBuffer

# AnyIO imports its asyncio backend on first use. That takes 15 ms, for which the first file
# operation of a process would block the loop.
with contextlib.suppress(ImportError):
    importlib.import_module("anyio._backends._asyncio")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Operation(Awaitable[T_co], Protocol[T_co]):
    """A file operation. Await it once, on the loop that it was made on.

    It begins when it is awaited or started. A cancelled await returns at once. If the operation
    has not begun, it never does. If it has, the kernel may still finish it; until then it keeps
    its buffer, and :meth:`FileBackend.close` waits for it. A file that it has opened is closed.
    """

    @property
    def in_flight(self) -> bool:
        """Whether the engine is working on it, even after a cancelled await."""

    @property
    def transferred(self) -> int:
        """How many bytes a read or write has moved, even if it has failed or was cancelled.

        While it is in flight, those that were moved before the engine got it.
        """

    def start(self) -> Operation[T_co]:
        """Begin now; awaiting it later returns the result.

        A started operation is completed also when its await is cancelled.
        """

    def request_end(self) -> None:
        """Cancel the work if it has not begun, is queued or may never end (a FIFO's open, a pipe).

        The await then raises OSError with ECANCELED. Other work that has begun continues.
        """

    def close(self) -> None:
        """Abandon it: if it has not begun, it never does; a file that it opens is closed."""

    def when_released(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(result)`` when the engine is done with it; at once if it is.

        The result is None unless the operation succeeded after its await had been cancelled.
        """


class FileBackend(Protocol):
    """The file operations of one running loop; belongs to that loop's thread.

    Errors are OSError and its subclasses, with the file's name where the operation has one.
    Cancellation: see :class:`Operation`. An offset of -1 stands for the descriptor's own position
    (pipes and the like). ``alignment`` is that of a file opened with ``O_DIRECT``: buffers, sizes
    and offsets that are not multiples of it are refused with ValueError.
    """

    @property
    def name(self) -> str:
        """``"uring"`` or ``"threads"``."""

    @property
    def reason(self) -> str:
        """Why it is this engine, in one line."""

    @property
    def closed(self) -> bool:
        """Whether its loop has ended."""

    def open(self, path: StrOrBytesPath, flags: int, mode: int = 0o666, /) -> Operation[int]:
        """Open a file, as ``os.open`` does; the descriptor is closed on exec."""

    def close(self, fd: int, at_once: bool = False, /) -> Operation[None]:
        """Close a descriptor once no operation uses it.

        ``at_once`` means that closing cannot wait for a device, because nothing was written.
        """

    def leave(self, fd: int, /) -> Operation[None]:
        """Wait until no operation uses a descriptor, which stays open."""

    def abandon(self, fd: int, /) -> None:
        """Close a descriptor without waiting; from any thread, even after the loop's end."""

    def uses(self, fd: int, /) -> bool:
        """Whether an operation on a descriptor is in flight, or has yielded and is to begin."""

    def is_remote(self, fd: int, /) -> bool:
        """Whether a server or a daemon is known to answer for an open file, without asking it."""

    def read(self, fd: int, size: int, offset: int, alignment: int = 1, /) -> Operation[bytes]:
        """Read ``size`` bytes: less only at the end of the file, or where ``offset`` is -1."""

    def read_into(
        self, fd: int, buffer: WriteableBuffer, offset: int, alignment: int = 1, /
    ) -> Operation[int]:
        """Read into a buffer, which must not be used meanwhile; returns the count."""

    def write(
        self,
        fd: int,
        data: ReadableBuffer,
        offset: int,
        alignment: int = 1,
        cached: bool = False,
        /,
    ) -> Operation[int]:
        """Write all of ``data``, and return its size.

        ``cached`` means a regular file that is written through the page cache. Small writes are
        then made at once while the kernel has room for dirty pages.
        """

    def fsync(self, fd: int, /) -> Operation[None]: ...
    def fdatasync(self, fd: int, /) -> Operation[None]: ...
    def truncate(self, fd: int, length: int, /) -> Operation[None]: ...

    def stat(
        self, path: StrOrBytesPath | int, follow_symlinks: bool = True, /
    ) -> Operation[os.stat_result]: ...

    def rename(self, source: StrOrBytesPath, target: StrOrBytesPath, /) -> Operation[None]:
        """Rename; a target that exists is replaced."""

    def replace(self, source: StrOrBytesPath, target: StrOrBytesPath, /) -> Operation[None]: ...
    def link(self, source: StrOrBytesPath, target: StrOrBytesPath, /) -> Operation[None]: ...
    def unlink(self, path: StrOrBytesPath, /) -> Operation[None]: ...
    def rmdir(self, path: StrOrBytesPath, /) -> Operation[None]: ...
    def mkdir(self, path: StrOrBytesPath, mode: int = 0o777, /) -> Operation[None]: ...

    def read_file(self, path: StrOrBytesPath, /) -> Operation[bytes]:
        """Open, read and close a file in one go."""

    def copy_range(
        self, source_fd: int, target_fd: int, offset: int, length: int, /
    ) -> Operation[int]:
        """copy_file_range(2), from and to the same offset; returns how much was copied."""

    def lock(self, fd: int, kind: int, /) -> Operation[None]:
        """Wait for an open file description lock of the whole file: ``F_RDLCK`` or ``F_WRLCK``.

        Each wait has a thread, which a cancellation interrupts. InterruptedError: begin again.
        """

    def read_many_cached(
        self, fd: int, size: int, offsets: Sequence[int], /
    ) -> list[bytes] | tuple[bytes | None, ...]:
        """Read a regular file at each offset, now.

        A tuple where not all have succeeded: with None where a read would have to wait, or fails.
        Not for a file opened with ``O_DIRECT``.
        """

    def read_files_cached(
        self, paths: Iterator[StrOrBytesPath], found: list[bytes], /
    ) -> bool | tuple[StrOrBytesPath] | None:
        """Append the contents of files to ``found``, now, while the page cache has them.

        True: the time slice is over, call :meth:`yield_now` and go on. False: that were all. A
        tuple: :meth:`read_file` must read the file of this path, or raise its error; it is the last
        one that was taken from ``paths``. None: nothing was taken, on trio, whose every await is a
        checkpoint.
        """

    def access_cached(self, path: StrOrBytesPath, mode: int, /) -> bool | None:
        """Return what ``os.access`` does, now; None if that would have to wait."""

    def call(self, function: Callable[[], T], /) -> Operation[T]:
        """Call a Python function on a worker thread; returns or raises what it does."""

    def start_many(
        self,
        operations: Iterator[Operation[T]],
        most: int,
        take: Callable[[Operation[T]], object],
        /,
    ) -> int:
        """Start up to ``most`` operations, and submit them together; returns how many.

        Each is passed to ``take`` when it has begun. An error of the iterator is raised, after
        those that have begun were submitted.
        """

    def yield_now(self) -> Operation[None]:
        """Yield to the other tasks of the loop."""

    def should_yield(self, cost: int, /) -> bool:
        """Whether a task that has not waited for some time should call :meth:`yield_now`.

        ``cost`` is the work until the next call, in bytes that could be copied in that time. The
        clock is read after each 64 KiB.
        """

    def describe(self, fd: int, /) -> tuple[int, int, int, int, int]:
        """Examine an open file, without waiting for a device or a server.

        Returns (mode, size, preferred block size, alignment of memory and of offsets for
        ``O_DIRECT``). The alignments are 0 where the file system does not report them.
        """


def current_backend() -> FileBackend:
    """Return the file operations of the running event loop.

    Raises RuntimeError outside of asyncio's loops and trio.
    """
    engine = _core.running_file_engine()
    if engine is not None:
        return engine
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return _of_trio(trio)
    loop = asyncio.get_running_loop()
    if isinstance(loop, _core.LoopCore):
        return loop._file_engine()
    attached: _Attached | None = getattr(loop, "_penstock_files", None)
    if attached is None or attached.engine.closed:
        attached = _Attached(loop)
        loop._penstock_files = attached  # type: ignore[attr-defined]
    return attached.engine


class _Attached:
    """An engine beside an asyncio loop; an attribute of the loop, so that it ends with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = _core.FileEngine(loop, loop.call_soon)
        loop.add_reader(self.engine.fileno(), self.engine.process)
        # asyncio has no hook for a loop's end. But asyncio.run() closes the asynchronous generators
        # that were begun on the loop, when all tasks have ended.
        self._until_shutdown = _close_at_shutdown(loop, self.engine)
        with contextlib.suppress(StopIteration):
            self._until_shutdown.asend(None).send(None)


async def _close_at_shutdown(
    loop: asyncio.AbstractEventLoop, engine: _core.FileEngine
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if not engine.in_child:  # the parent still uses this epoll, which a fork shares
            loop.remove_reader(engine.fileno())
        engine.shutdown()


_trio_engine: Any = None
"""A trio.lowlevel.RunVar, made when trio first asks."""


def _of_trio(trio: Any) -> FileBackend:
    global _trio_engine
    if _trio_engine is None:
        _trio_engine = trio.lowlevel.RunVar("penstock.files", default=None)
    engine: _core.FileEngine | None = _trio_engine.get()
    if engine is None or engine.closed:
        engine = _core.FileEngine(
            None,
            trio.lowlevel.current_trio_token().run_sync_soon,
            trio.lowlevel.checkpoint,
            _wait_on_trio,
        )
        _trio_engine.set(engine)
        trio.lowlevel.spawn_system_task(_serve_on_trio, engine, name="penstock.files")
    return engine


async def _serve_on_trio(engine: _core.FileEngine) -> None:
    import trio

    try:
        while True:
            await trio.lowlevel.wait_readable(engine.fileno())
            engine.process()
    finally:
        engine.shutdown()


async def _wait_on_trio(operation: _core.FileOperation[Any]) -> None:
    import trio

    task = trio.lowlevel.current_task()

    def give_up(_: object) -> trio.lowlevel.Abort:
        operation.remove_done_callback(wake)
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(_: object) -> None:
        trio.lowlevel.reschedule(task)

    operation.add_done_callback(wake)
    await trio.lowlevel.wait_task_rescheduled(give_up)
