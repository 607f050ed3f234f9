"""Binary files."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._core import ReadyValue
from penstock.files.async_file import AsyncFile
from penstock.files.backend import FileBackend, Operation
from penstock.files.modes import OpenMode
from penstock.files.turns import Turns

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["BinaryFile"]

T = TypeVar("T")

_LARGEST_READ_AHEAD = 128 * 1024
_UNBUFFERED_CHUNK = 4096


class BinaryFile(AsyncFile[bytes]):
    """A file of bytes, with read-ahead and a buffer for small writes, or without both.

    In memory are at most a window of the file that was read ahead, and a run of bytes to be
    written, which belong at ``_unwritten_at``. Never both: reading writes the run out first, and
    writing drops the window.
    """

    __slots__ = (
        "_ahead",
        "_ahead_at",
        "_alignment",
        "_appending",
        "_backend",
        "_buffer_size",
        "_cached",
        "_current",
        "_fd",
        "_mode",
        "_name",
        "_next_read_ahead",
        "_owns_fd",
        "_plain",
        "_position",
        "_read",
        "_readable",
        "_regular",
        "_seekable",
        "_turns",
        "_unwritten",
        "_unwritten_at",
        "_unwritten_size",
        "_writable",
        "_writing_out",
    )

    def __init__(
        self,
        backend: FileBackend,
        fd: int,
        name: Any,
        mode: OpenMode,
        *,
        position: int | None,
        regular: bool,
        cached: bool,
        buffer_size: int,
        alignment: int,
        owns_fd: bool,
    ) -> None:
        """``position`` is None for what has none; ``cached``: written through the page cache.

        Does not fail: whoever called would have to close the descriptor.
        """
        self._backend = backend
        self._read = backend.read
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
        self._turns = Turns()
        self._current: Operation[Any] | None = None
        self._ahead = b""
        self._ahead_at = 0
        self._next_read_ahead = buffer_size
        self._unwritten: list[bytes] = []
        self._unwritten_at = 0
        self._unwritten_size = 0
        self._writing_out = False

    # ---- what it is -----------------------------------------------------------------------------

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
        return os.isatty(self._fd)

    def readable(self) -> bool:
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        self._check_open()
        return self._seekable

    # ---- reading --------------------------------------------------------------------------------

    async def read(self, size: int | None = -1) -> bytes:
        # This and `write` do without helpers where most calls pass: each would cost as much as the
        # way into the kernel.
        turns = self._turns
        if turns.taken:
            await turns.take()
        else:
            turns.taken = True
        try:
            if self._fd < 0 or not self._readable:
                self._check_readable()
            if size is None or size < 0:
                return await self._read_rest()
            position = self._position
            ahead = self._ahead
            if ahead:
                start = position - self._ahead_at
                data = ahead[start : start + size] if start >= 0 else b""
                if len(data) < size:
                    data = await self._read_more(data, size)
            elif size < self._buffer_size or self._unwritten_size or not self._plain:
                data = await self._read_more(b"", size)
            else:
                self._current = operation = self._read(self._fd, size, position)
                data = await operation
                self._current = None
            self._position = position + len(data)
            return data
        finally:
            if self._current is not None:
                self._end_turn()
            elif turns.waiting:
                turns.give_up()
            else:
                turns.taken = False

    async def read1(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes with at most one request: what was read ahead, if anything."""
        await self._turns.take()
        try:
            self._check_readable()
            data = self._buffered()
            if not data:
                data = await self._fill(self._buffer_size if size < 0 else size)
                if not self._buffer_size:
                    self._drop_read_ahead()
            if size >= 0:
                data = data[:size]
            self._position += len(data)
            return data
        finally:
            self._end_turn()

    async def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer until it is full or the file ends; returns the number of bytes.

        Large reads go into it directly. It must not be used meanwhile, nor after a cancelled await
        before the file's next call has ended.
        """
        await self._turns.take()
        try:
            self._check_readable()
            with memoryview(buffer).cast("B") as view:
                filled = 0
                if data := self._buffered()[: len(view)]:
                    filled = len(data)
                    view[:filled] = data
                while filled < len(view):
                    count = await self._read_into(view[filled:], filled)
                    filled += count
                    if count == 0 or self._seekable:
                        break
                self._position += filled
                return filled
        finally:
            self._end_turn()

    async def readline(self, size: int | None = -1) -> bytes:
        await self._turns.take()
        try:
            self._check_readable()
            limit = -1 if size is None else size
            pieces: list[bytes] = []
            length = 0
            while limit < 0 or length < limit:
                start = self._position + length - self._ahead_at
                if not 0 <= start < len(self._ahead):
                    if not await self._fill(self._buffer_size, length):
                        break
                    start = self._position + length - self._ahead_at
                end = self._ahead.find(b"\n", start) + 1
                if limit >= 0:
                    most = start + limit - length
                    end = min(end, most) if end else min(len(self._ahead), most)
                    found = end == most or self._ahead[end - 1 : end] == b"\n"
                else:
                    found = bool(end)
                piece = self._ahead[start:end] if end else self._ahead[start:]
                pieces.append(piece)
                length += len(piece)
                if found:
                    break
            self._position += length
            if not self._buffer_size:
                self._drop_read_ahead()
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            self._end_turn()

    def __anext__(self) -> Awaitable[bytes]:
        # A line that is at hand costs no coroutine.
        ahead = self._ahead
        if ahead and not self._turns.taken and self._fd >= 0:
            begin = self._position - self._ahead_at
            end = ahead.find(b"\n", begin) + 1 if begin >= 0 else 0
            if end:
                self._position += end - begin
                return ReadyValue(ahead[begin:end])
        return self._next_line()

    async def peek(self, size: int = 0) -> bytes:
        """Return what was read ahead, reading once if that is nothing. The position stays."""
        await self._turns.take()
        try:
            self._check_readable()
            return self._buffered() or await self._fill(self._buffer_size or 1)
        finally:
            self._end_turn()

    def pread(self, size: int, offset: int) -> Awaitable[bytes]:
        """Read ``size`` bytes at ``offset``, past position, turns and read-ahead.

        Less only at the end of the file. Any number of them may be in flight together.
        """
        self._check_readable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if self._unwritten_size:
            return self._after_flush(self._read, size, offset)
        return self._read(self._fd, size, offset, self._alignment)

    def pread_into(self, buffer: WriteableBuffer, offset: int) -> Awaitable[int]:
        """The same into a buffer, until it is full or the file ends; returns the number of bytes.

        The buffer stays exported until the kernel is done with it, also after a cancelled await.
        """
        self._check_readable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if self._unwritten_size:
            return self._after_flush(self._backend.read_into, buffer, offset)
        return self._backend.read_into(self._fd, buffer, offset, self._alignment)

    # ---- writing --------------------------------------------------------------------------------

    async def write(self, data: ReadableBuffer) -> int:
        turns = self._turns
        if turns.taken:
            await turns.take()
        else:
            turns.taken = True
        try:
            if self._fd < 0 or not self._writable:
                self._check_writable()
            if type(data) is bytes:
                size = len(data)
            else:
                with memoryview(data) as view:
                    size = view.nbytes
            if size < self._buffer_size:
                if self._unwritten_at + self._unwritten_size != self._position:
                    await self._write_out()
                if not self._unwritten_size:
                    self._drop_read_ahead()
                    self._unwritten_at = self._position
                elif self._unwritten_size + size > self._buffer_size:
                    await self._write_out()
                    self._unwritten_at = self._position
                self._unwritten.append(bytes(data))
                self._unwritten_size += size
                self._position += size
            else:
                if self._unwritten_size:
                    await self._write_out()
                if self._ahead:
                    self._drop_read_ahead()
                self._current = operation = self._backend.write(
                    self._fd,
                    data,
                    self._position if self._seekable else -1,
                    self._alignment,
                    self._cached,
                )
                await operation
                self._current = None
                self._position += size
                if size and self._appending and self._seekable:
                    self._position = await self._size()
            return size
        finally:
            if self._current is not None:
                self._end_turn()
            elif turns.waiting:
                turns.give_up()
            else:
                turns.taken = False

    async def pwrite(self, data: ReadableBuffer, offset: int) -> int:
        """Write all of ``data`` at ``offset``, past the position and the buffer; returns its size.

        In append mode Linux writes at the end of the file all the same (pwrite(2)).
        """
        await self._turns.take()
        try:
            self._check_writable()
            if offset < 0:
                raise ValueError(f"offset {offset} is negative")
            await self._write_out()
            self._drop_read_ahead()
        finally:
            self._end_turn()
        written = await self._backend.write(self._fd, data, offset, self._alignment, self._cached)
        self._drop_read_ahead()
        return written

    async def flush(self) -> None:
        await self._turns.take()
        try:
            self._check_open()
            await self._write_out()
        finally:
            self._end_turn()

    async def fsync(self) -> None:
        await self.flush()
        await self._backend.fsync(self._fd)

    async def fdatasync(self) -> None:
        await self.flush()
        await self._backend.fdatasync(self._fd)

    async def truncate(self, size: int | None = None) -> int:
        await self._turns.take()
        try:
            self._check_writable()
            await self._write_out()
            length = self._position if size is None else size
            if length < 0:
                raise ValueError(f"a file cannot be {length} bytes long")
            self._drop_read_ahead()
            await self._do(self._backend.truncate(self._fd, length))
            return length
        finally:
            self._end_turn()

    # ---- the position ---------------------------------------------------------------------------

    async def seek(self, offset: int, whence: int = 0) -> int:
        await self._turns.take()
        try:
            self._check_open()
            self._check_seekable()
            if whence == os.SEEK_SET:
                position = offset
            elif whence == os.SEEK_CUR:
                position = self._position + offset
            elif whence == os.SEEK_END:
                await self._write_out()
                position = await self._size() + offset
            else:
                raise ValueError(f"whence {whence} is none of SEEK_SET, SEEK_CUR and SEEK_END")
            if position < 0:
                raise OSError(22, f"position {position} is before the beginning of the file")
            if not 0 <= position - self._ahead_at <= len(self._ahead):
                self._next_read_ahead = self._buffer_size
            self._position = position
            return position
        finally:
            self._end_turn()

    async def tell(self) -> int:
        await self._turns.take()
        try:
            self._check_open()
            self._check_seekable()
            return self._position
        finally:
            self._end_turn()

    # ---- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        await self._turns.take()
        try:
            if self._fd < 0:
                return
            try:
                await self._write_out(to_the_end=True)
            except BaseException:
                self._close_unawaited()
                raise
            fd, self._fd = self._fd, -1
            self._drop_read_ahead()
            if self._owns_fd:
                # Begun before anything can be cancelled.
                await self._backend.close(fd, not self._writable and self._regular).start()
        finally:
            self._end_turn()

    def _close_unawaited(self) -> None:
        """Write out what has not been handed to the kernel, and close, without waiting."""
        fd, self._fd = self._fd, -1
        if self._unwritten_size and not (self._current is not None and self._current.in_flight):
            data = b"".join(self._unwritten)
            offset = self._unwritten_at if self._seekable else -1
            try:
                self._backend.write(fd, data, offset).start()
            except RuntimeError:
                _write_now(fd, data, offset)
        self._forget_unwritten()
        if self._owns_fd:
            self._backend.abandon(fd)

    def __del__(self) -> None:
        # Also for one whose __init__ failed.
        fd = getattr(self, "_fd", -1)
        if fd < 0:
            return
        if self._owns_fd:
            warnings.warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=2, source=self)
        if self._unwritten_size:
            _write_now(fd, b"".join(self._unwritten), self._unwritten_at if self._seekable else -1)
        self._fd = -1
        if self._owns_fd:
            self._backend.abandon(fd)

    # ---- within a turn --------------------------------------------------------------------------

    async def _do(self, operation: Operation[T]) -> T:
        """Await an operation that the turn does not end before."""
        self._current = operation
        result = await operation
        self._current = None
        return result

    def _end_turn(self) -> None:
        operation = self._current
        if operation is None:
            self._turns.give_up()
            return
        # It was cancelled or failed.
        self._current = None
        operation.when_settled(self._settled)

    def _settled(self, result: object) -> None:
        """The engine is done with what the turn was ended before; its result, if it has one."""
        if self._writing_out:
            self._writing_out = False
            if result is not None:
                self._forget_unwritten()
        elif isinstance(result, bytes) and not self._seekable:
            # What was taken out of a pipe is there only once.
            self._ahead = self._buffered() + result
            self._ahead_at = self._position
        self._turns.give_up()

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
        """What was read ahead of the position."""
        start = self._position - self._ahead_at
        return self._ahead[start:] if 0 <= start < len(self._ahead) else b""

    def _drop_read_ahead(self) -> None:
        if self._seekable:
            self._ahead = b""

    def _forget_unwritten(self) -> None:
        self._unwritten = []
        self._unwritten_size = 0

    async def _fill(self, size: int, further: int = 0) -> bytes:
        """Read ahead from ``further`` bytes behind the position; returns all that there is then."""
        await self._write_out()
        start = self._position + further
        if self._buffer_size:
            if size < self._next_read_ahead:
                size = self._next_read_ahead
            if start == self._ahead_at + len(self._ahead) and self._seekable:
                # Read in order so far: it pays to read more at once.
                self._next_read_ahead = min(
                    2 * self._next_read_ahead, max(_LARGEST_READ_AHEAD, self._buffer_size)
                )
        elif not size:
            size = _UNBUFFERED_CHUNK
        data = await self._do(
            self._read(self._fd, size, start if self._seekable else -1, self._alignment)
        )
        if self._seekable:
            self._ahead = data
            self._ahead_at = start
        else:
            self._ahead = self._buffered() + data
            self._ahead_at = self._position
        return data

    async def _read_more(self, data: bytes, size: int) -> bytes:
        """Complete a read of ``size`` bytes, of which ``data`` was there. The position stays."""
        if self._unwritten_size:
            await self._write_out()
        if not self._seekable:
            return await self._read_from_pipe(data, size)
        if self._position % self._alignment and self._position >= await self._size():
            return b""  # behind a direct read that ended with the file
        missing = size - len(data)
        if missing < self._buffer_size:
            more = (await self._fill(missing, len(data)))[:missing]
        else:
            more = await self._do(
                self._read(self._fd, missing, self._position + len(data), self._alignment)
            )
        return data + more if data else more

    async def _read_from_pipe(self, data: bytes, size: int) -> bytes:
        while len(data) < size:
            more = await self._do(self._read(self._fd, max(size - len(data), 1), -1, 1))
            if not more:
                break
            # Kept as read ahead until the read is complete: it may be cancelled.
            data += more
            self._ahead = data
            self._ahead_at = self._position
            if not self._buffer_size:
                break
        return data

    async def _read_rest(self) -> bytes:
        await self._write_out()
        data = self._buffered()
        if not self._seekable:
            while more := await self._do(self._read(self._fd, 65536, -1, 1)):
                data += more
                self._ahead = data
                self._ahead_at = self._position
            self._position += len(data)
            return data
        parts = [data]
        position = self._position + len(data)
        # One byte more than there should be tells that the file ends there.
        size = max(await self._size() - position, 0) + 1
        while True:
            size += -size % self._alignment
            data = await self._do(self._read(self._fd, size, position, self._alignment))
            parts.append(data)
            position += len(data)
            if len(data) < size:
                break
            size = max(size, self._buffer_size, 65536)
        self._position = position
        return b"".join(parts) if parts[0] or len(parts) > 2 else parts[1]

    async def _read_into(self, view: memoryview, further: int) -> int:
        await self._write_out()
        if self._seekable and len(view) < self._buffer_size:
            data = (await self._fill(len(view), further))[: len(view)]
            view[: len(data)] = data
            return len(data)
        offset = self._position + further if self._seekable else -1
        return await self._do(self._backend.read_into(self._fd, view, offset, self._alignment))

    async def _size(self) -> int:
        if self._regular:
            return self._backend.describe(self._fd)[1]
        return os.lseek(self._fd, 0, os.SEEK_END)

    async def _write_out(self, to_the_end: bool = False) -> None:
        """Write what is buffered. Cancelled, it is taken for written if it was.

        ``to_the_end``: also when cancelled, if there was a chance to begin.
        """
        if not self._unwritten_size:
            return
        data = b"".join(self._unwritten)
        offset = self._unwritten_at if self._seekable else -1
        self._writing_out = True
        operation = self._backend.write(self._fd, data, offset, 1, self._cached)
        await self._do(operation.start() if to_the_end else operation)
        self._writing_out = False
        self._forget_unwritten()
        if self._appending and self._seekable:
            here = self._position == self._unwritten_at + len(data)
            self._unwritten_at = await self._size()
            if here:
                self._position = self._unwritten_at

    async def _after_flush(self, operation: Any, what: Any, offset: int) -> Any:
        await self.flush()
        return await operation(self._fd, what, offset, self._alignment)


def _write_now(fd: int, data: bytes, offset: int) -> None:
    with memoryview(data) as rest:
        while rest:
            count = os.write(fd, rest) if offset < 0 else os.pwrite(fd, rest, offset)
            rest = rest[count:]
            offset += count if offset >= 0 else 0
