"""The base of binary files: descriptor, turns, write buffer and closing."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from penstock._core import BinaryFileCore
from penstock.files._backend import FileBackend, Operation
from penstock.files._file_objects.async_file import AsyncFile
from penstock.files._file_objects.modes import OpenMode
from penstock.files._file_objects.turns import TakesTurns

T = TypeVar("T")

DETACHED = -2
"""The value of the descriptor after ``detach``."""


class DescriptorFile(BinaryFileCore, AsyncFile[bytes], TakesTurns):
    """An open descriptor with a position, which one call at a time may use.

    It buffers either a window of the file that was read ahead, or a run of bytes to be written at
    ``_unwritten_at``, never both: reading writes the run out first, and writing drops the window.

    The native part holds the state, and does what is possible at once. Where it is not, it calls
    the methods whose names end with ``_in_turn``: they begin with the turn taken, and give it up.
    """

    __slots__ = ()

    def __init__(
        self,
        backend: FileBackend,
        fd: int,
        name: Any,
        mode: OpenMode,
        *,
        position: int | None,
        regular: bool,
        size: int,
        cached: bool,
        buffer_size: int,
        alignment: int,
        owns_fd: bool,
    ) -> None:
        """``position`` is None for a pipe; ``cached``: written through the page cache.

        ``size`` is that of a regular file. Does not fail, so the caller need not close the
        descriptor.
        """
        self._backend = backend
        self._fd = fd
        self._name = name
        self._mode = mode.text
        self._readable = mode.readable
        self._writable = mode.writable
        self._appending = mode.appending
        self._owns_fd = owns_fd
        self._regular = regular
        self._seekable = position is not None
        self._cached = cached
        self._position = position or 0
        self._alignment = alignment
        self._plain = self._seekable and alignment == 1
        self._buffer_size = buffer_size
        self._next_read_ahead = buffer_size
        self._unwritten = []
        self._known_size = size if regular else -1

    # ---- properties -----------------------------------------------------------------------------

    @property
    def name(self) -> Any:
        return self._name

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        self._check_open()
        return self._fd

    def isatty(self) -> bool:
        self._check_open()
        return not self._regular and os.isatty(self._fd)  # a daemon would be asked for a file

    def readable(self) -> bool:
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        self._check_open()
        return self._seekable

    # ---- the write buffer -----------------------------------------------------------------------

    async def _flush_in_turn(self) -> None:
        try:
            self._check_open()
            await self._write_out()
        finally:
            self._end_turn()

    async def fsync(self) -> None:
        await self.flush()
        self._check_open()
        await self._backend.fsync(self._fd)

    async def fdatasync(self) -> None:
        await self.flush()
        self._check_open()
        await self._backend.fdatasync(self._fd)

    def _size(self) -> int:
        if self._regular:
            return self._backend.describe(self._fd)[1]
        return os.lseek(self._fd, 0, os.SEEK_END)

    async def _write_out(self, to_the_end: bool = False) -> None:
        """Write the buffer. What a cancelled or failed write has written leaves it, no more.

        ``to_the_end``: complete a write that has begun also when the await is cancelled.
        """
        if not self._unwritten_size:
            return
        data = b"".join(self._unwritten)
        offset = self._unwritten_at if self._seekable else -1
        operation = self._backend.write(self._fd, data, offset, 1, self._cached)
        self._writing_out = True
        await self._do(operation.start() if to_the_end else operation)
        self._writing_out = False
        self._drop_written(len(data))

    def _drop_written(self, size: int) -> None:
        """Drop the first ``size`` bytes of the write buffer, which are in the file.

        Writing them again would write them twice to a pipe, and in append mode.
        """
        if not size or not self._unwritten_size:
            return
        end = self._unwritten_at + self._unwritten_size
        rest = b"".join(self._unwritten)[size:]
        self._unwritten = [rest] if rest else []
        self._unwritten_size = len(rest)
        self._unwritten_at += size
        if not rest and self._appending and self._seekable:
            self._unwritten_at = self._size()
            if self._position == end:
                self._position = self._unwritten_at

    # ---- closing --------------------------------------------------------------------------------

    async def _close_in_order(self) -> None:
        try:
            await self._take_turn()
        except BaseException:
            # A cancelled scope cancels this await too. The kernel may still be working on the call
            # that the scope cancelled before.
            self._take_turn_later(self._close_in_turn)
            raise
        try:
            if self._fd < 0:
                if self._fd == DETACHED:
                    raise ValueError("the file has been detached: it no longer owns its descriptor")
                return
            try:
                await self._write_out(to_the_end=True)
            except BaseException as error:
                if isinstance(error, OSError):
                    self._forget_unwritten()  # a part may be written, and must not be repeated
                self._close_unawaited()
                raise
            fd, self._fd = self._fd, -1
            self._drop_read_ahead()
            if self._owns_fd:
                # Begun before anything can be cancelled.
                await self._backend.close(fd, not self._writable and self._regular).start()
            elif self._backend.uses(fd):  # whose owner may close it next
                await self._backend.leave(fd).start()
        finally:
            self._end_turn()

    def _close_in_turn(self) -> None:
        try:
            if self._fd >= 0:
                self._close_unawaited()
        finally:
            self._give_up_turn()

    def _close_unawaited(self) -> None:
        """Write out the buffer unless the kernel has it, and close, without waiting."""
        fd, self._fd = self._fd, -1
        try:
            if self._unwritten_size and not (self._current is not None and self._current.in_flight):
                data = b"".join(self._unwritten)
                offset = self._unwritten_at if self._seekable else -1
                try:
                    self._backend.write(fd, data, offset).start()
                except RuntimeError:
                    write_now(fd, data, offset)
        finally:  # also where the disk is full
            self._forget_unwritten()
            if self._owns_fd:
                self._backend.abandon(fd)

    def _report_unclosed(self) -> None:
        """The native finalizer calls it for a file that is still open."""
        fd = self._fd
        try:
            if self._owns_fd:
                warnings.warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=2, source=self)
        finally:  # also where the warning is an error, and where the disk is full
            try:
                if self._unwritten_size:
                    offset = self._unwritten_at if self._seekable else -1
                    write_now(fd, b"".join(self._unwritten), offset)
            finally:
                self._fd = -1
                self._forget_unwritten()
                if self._owns_fd:
                    self._backend.abandon(fd)

    # ---- within a turn --------------------------------------------------------------------------

    async def _do(self, operation: Operation[T]) -> T:
        """Await an operation; the turn does not end before it."""
        self._current = operation
        result = await operation
        self._current = None
        return result

    def _end_turn(self) -> None:
        operation = self._current
        if operation is None:
            self._give_up_turn()
            return
        # It was cancelled or failed.
        self._current = None
        operation.when_released(partial(self._settled, operation))

    def _settled(self, operation: Operation[Any], result: object) -> None:
        """The engine is done with the operation that was in flight when the turn ended."""
        if self._writing_out:
            self._writing_out = False
            self._drop_written(operation.transferred)
        elif isinstance(result, bytes) and not self._seekable:
            # Data that were read from a pipe cannot be read again.
            self._ahead = self._buffered() + result
            self._ahead_at = self._position
        self._give_up_turn()

    def _check_open(self) -> None:
        if self._fd < 0:
            raise ValueError("I/O operation on closed file.")

    def _check_readable(self) -> None:
        if self._fd < 0 or not self._readable:
            self._check_open()
            raise io.UnsupportedOperation(f"the file was opened for writing only ({self._mode!r})")

    def _check_writable(self) -> None:
        if self._fd < 0 or not self._writable:
            self._check_open()
            raise io.UnsupportedOperation(f"the file was opened for reading only ({self._mode!r})")

    def _check_seekable(self) -> None:
        if not self._seekable:
            raise io.UnsupportedOperation("the file has no positions: it is a pipe or a terminal")

    def _buffered(self) -> bytes:
        """The data that were read ahead, from the position on."""
        start = self._position - self._ahead_at
        return self._ahead[start:] if 0 <= start < len(self._ahead) else b""

    def _drop_read_ahead(self) -> None:
        if self._seekable:
            self._ahead = b""

    def _forget_unwritten(self) -> None:
        self._unwritten = []
        self._unwritten_size = 0


def write_now(
    fd: int, data: bytes, offset: int, written: Callable[[int], object] = lambda count: None
) -> None:
    """Write with blocking calls; an offset of -1 is the descriptor's own position.

    ``written`` is called with the number of bytes that each of them has written.
    """
    with memoryview(data) as rest:
        while rest:
            count = os.write(fd, rest) if offset < 0 else os.pwrite(fd, rest, offset)
            written(count)
            rest = rest[count:]
            offset += count if offset >= 0 else 0
