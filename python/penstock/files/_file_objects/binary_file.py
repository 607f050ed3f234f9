"""Binary files."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

from penstock.files._file_objects.allocation import allocate, punch_hole
from penstock.files._file_objects.async_file import split_all
from penstock.files._file_objects.batches import (
    MOST_AT_ONCE,
    read_into_many,
    read_many,
)
from penstock.files._file_objects.descriptor_file import DETACHED, DescriptorFile, write_now
from penstock.files._file_objects.sending import SendTarget, send_range

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_LARGEST_READ_AHEAD = 128 * 1024
_UNBUFFERED_CHUNK = 4096
_LARGEST_JOINED = 1 << 20
_CHUNK_OF_PIPE = 1 << 16  # what a pipe holds, unless it was made larger
_LARGEST_OF_PIPE = 1 << 20
_LARGEST_POSITION = (1 << 63) - 1


class BinaryFile(DescriptorFile):
    """A file of bytes, with read-ahead and a buffer for small writes, or with neither."""

    __slots__ = ()

    # ---- reading --------------------------------------------------------------------------------

    async def _read_in_turn(self, size: int | None) -> bytes:
        try:
            self._check_readable()
            if size is None or size < 0:
                if size is not None and size < -1 and self._buffer_size:
                    raise ValueError(f"read length must be non-negative or -1, not {size}")
                return await self._read_rest()
            ahead = self._buffered()
            if ahead and len(ahead) >= size:
                data = ahead[:size]
            elif ahead or size < self._buffer_size or self._unwritten_size or not self._plain:
                data = await self._read_more(ahead, size)
            else:
                data = await self._do(self._backend.read(self._fd, size, self._position))
            self._position += len(data)
            return data
        finally:
            self._end_turn()

    async def readall(self) -> bytes:
        """Read the rest of the file; the same as ``read()``."""
        return await self.read()

    def detach(self) -> io.FileIO:
        """Return an unbuffered Python file object of the descriptor, at the same position.

        Buffered data are written first, with blocking calls. Afterwards every method of this file
        raises ValueError, including ``close``, as the built-in's does.

        Raises:
            RuntimeError: while a call is in flight.
        """
        self._check_open()
        if self._turn_taken or self._backend.uses(self._fd):  # calls at offsets take no turn
            raise RuntimeError("a call of this file is in flight; await it before detach()")
        if self._unwritten_size:
            write_now(
                self._fd,
                b"".join(self._unwritten),
                self._unwritten_at if self._seekable else -1,
                self._drop_written,
            )
        fd, self._fd = self._fd, DETACHED
        self._ahead = b""
        if self._seekable:
            os.lseek(fd, self._position, os.SEEK_SET)
        mode = "a" if self._appending else "w" if self._writable else "r"
        if self._readable and self._writable:
            mode = "a+" if self._appending else "r+"
        return io.FileIO(fd, mode, closefd=self._owns_fd)

    async def _read1_in_turn(self, size: int) -> bytes:
        try:
            size = index(size)
            self._check_readable()
            data = self._buffered()
            if not data and size:
                data = await self._fill(self._buffer_size if size < 0 else size)
                if not self._buffer_size:
                    self._drop_read_ahead()
            if size >= 0:
                data = data[:size]
            self._position += len(data)
            return data
        finally:
            self._end_turn()

    async def _readinto_in_turn(self, buffer: WriteableBuffer) -> int:
        try:
            self._check_readable()
            with memoryview(buffer) as whole, whole.cast("B") as view:
                if view.readonly:
                    raise TypeError(f"readinto() cannot fill {type(buffer).__name__}: read-only")
                data = self._buffered()
                if len(data) < len(view) and not self._seekable:
                    # Not into the buffer: what a cancelled read has taken there would be lost.
                    data = await self._read_more(data, len(view))
                filled = min(len(data), len(view))
                view[:filled] = data[:filled]
                if filled < len(view) and self._seekable:
                    filled += await self._read_into(view[filled:], filled)
                self._position += filled
                return filled
        finally:
            self._end_turn()

    async def readinto1(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer with at most one request; with none after a read-ahead."""
        with memoryview(buffer) as whole, whole.cast("B") as view:
            if view.readonly:
                raise TypeError(f"readinto1() cannot fill {type(buffer).__name__}: read-only")
            data = await self.read1(len(view)) if view else b""
            view[: len(data)] = data
            return len(data)

    async def readlines(self, hint: int | None = None) -> list[bytes]:
        """Read lines until the end, or until their total length exceeds ``hint`` bytes."""
        if hint is not None and hint > 0:
            return await super().readlines(hint)
        return await split_all(await self.read(), self._backend)

    async def _readline_in_turn(self, size: int | None) -> bytes:
        try:
            self._check_readable()
            limit = -1 if size is None else size
            if not self._seekable:
                return await self._readline_from_pipe(limit)
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

    async def _next_line_in_turn(self) -> bytes:
        line = await self._readline_in_turn(-1)
        if not line:
            raise StopAsyncIteration
        return line

    async def _peek_in_turn(self) -> bytes:
        try:
            self._check_readable()
            return self._buffered() or await self._fill(self._buffer_size or self._alignment)
        finally:
            self._end_turn()

    async def _pread_slowly(self, size: int, offset: int) -> bytes:
        self._check_readable()
        self._check_seekable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if self._unwritten_size:
            await self.flush()
            self._check_open()
        return await self._backend.read(self._fd, size, offset, self._alignment)

    def pread_into(self, buffer: WriteableBuffer, offset: int) -> Awaitable[int]:
        """Read at ``offset`` into a buffer until it is full or the file ends; returns the count.

        The buffer stays exported until the kernel is done with it, even after a cancelled await.
        """
        if self._fd < 0 or not self._readable or not self._seekable:
            self._check_readable()
            self._check_seekable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if self._unwritten_size:
            return self._after_flush(self._backend.read_into, buffer, offset)
        return self._backend.read_into(self._fd, buffer, offset, self._alignment)

    async def _pread_many_slowly(self, size: int, offsets: Iterable[int]) -> list[bytes]:
        self._check_readable()
        self._check_seekable()
        wanted = offsets if isinstance(offsets, (list, tuple)) else list(offsets)
        if size < 0:
            raise ValueError(f"size {size} is negative")
        if self._unwritten_size:
            await self.flush()
            self._check_open()
        own = os.dup(self._fd)  # stays this file's if another task closes it
        try:
            return await read_many(
                self._backend, own, size, wanted, self._alignment, cached=self._cached
            )
        finally:
            self._backend.abandon(own)

    async def preadv(self, buffers: Sequence[WriteableBuffer], offset: int) -> int:
        """Read at ``offset`` into one buffer after the other; returns the number of bytes.

        It is less than the buffers hold only at the end of the file. They must not be used
        meanwhile, see ``pread_into``.
        """
        self._check_readable()
        self._check_seekable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if self._unwritten_size:
            await self.flush()
            self._check_open()
        own = os.dup(self._fd)
        try:
            return await read_into_many(self._backend, own, buffers, offset, self._alignment)
        finally:
            self._backend.abandon(own)

    async def sendfile(self, target: SendTarget, offset: int = 0, count: int | None = None) -> int:
        """Send a part of the file to a stream; returns the number of bytes.

        To sockets and pipes the kernel sends (sendfile(2), splice(2)), without a copy through the
        program. TLS, uvloop's transports and other streams are written in pieces. Neither blocks
        the loop: a worker waits for the disk. The position of this file does not move.

        Nothing else may be written to the target meanwhile.

        Args:
            target: a ``StreamWriter`` or transport of asyncio, a byte stream of AnyIO, a
                non-blocking socket, or a file of ``penstock.files``, such as a pipe.
            offset: where to begin in this file.
            count: how many bytes; without it, those up to the end.

        Cancellation: ends between two steps of at most 1 MiB. A part has been sent then.

        Raises:
            OSError: what sending raises, such as BrokenPipeError; AnyIO's streams raise theirs.
            TypeError: for another target.
        """
        self._check_readable()
        self._check_seekable()
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        if count is not None and count < 0:
            raise ValueError(f"count {count} is negative")
        if self._alignment > 1:
            raise io.UnsupportedOperation("a file opened with O_DIRECT cannot be sent")
        if self._unwritten_size:
            await self.flush()
            self._check_open()
        own = os.dup(self._fd)  # stays this file's if another task closes it
        try:
            size = _LARGEST_POSITION - offset if count is None else count
            return await send_range(self._backend, own, target, offset, size)
        finally:
            self._backend.abandon(own)

    # ---- writing --------------------------------------------------------------------------------

    async def _write_in_turn(self, data: ReadableBuffer) -> int:
        try:
            self._check_writable()
            if type(data) is bytes:
                size = len(data)
            else:
                with memoryview(data) as view:
                    size = view.nbytes
                    if size < self._buffer_size:
                        data = bytes(view)
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
                offset = self._position if self._seekable else -1
                write = self._backend.write
                size = await self._do(write(self._fd, data, offset, self._alignment, self._cached))
                self._position += size
                if size and self._appending and self._seekable:
                    self._position = self._size()
            return size
        finally:
            self._end_turn()

    def _buffered_nothing(self) -> bytes | None:
        return b"" if self._buffer_size else None

    async def _pwrite_in_turn(self, data: ReadableBuffer, offset: int) -> int:
        try:
            self._check_writable()
            self._check_seekable()
            if offset < 0:
                raise ValueError(f"offset {offset} is negative")
            await self._write_out()
            self._drop_read_ahead()
        finally:
            self._end_turn()
        write = self._backend.write(self._fd, data, offset, self._alignment, self._cached)
        try:
            written = await write
        except BaseException:
            write.when_released(lambda _: self._take_turn_later(self._drop_in_turn))
            raise
        # Another call may have read ahead, or be reading, what was there before.
        self._take_turn_later(self._drop_in_turn)
        return written

    def _drop_in_turn(self) -> None:
        self._drop_read_ahead()
        self._give_up_turn()

    async def pwritev(self, buffers: Sequence[ReadableBuffer], offset: int) -> int:
        """Write one buffer after the other at ``offset``; returns the number of bytes.

        Small ones are joined to one write, see ``pwrite``.
        """
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        if self._alignment == 1 and sum(map(len, views)) <= MOST_AT_ONCE:
            return await self.pwrite(b"".join(views), offset)
        total = 0
        for view in views:
            total += await self.pwrite(view, offset + total)
        return total

    async def fallocate(self, offset: int, length: int, *, keep_size: bool = False) -> None:
        """Reserve the blocks of a range, so that writing there cannot fail for lack of space.

        A file that ends before the range becomes as long, with zeros, unless ``keep_size``.

        Raises:
            OSError: with the name; ENOSPC, or EOPNOTSUPP where the file system has no such call.
        """
        await self._change_blocks(partial(allocate, self._fd, offset, length, keep_size))

    async def punch_hole(self, offset: int, length: int) -> None:
        """Free the blocks of a range, which then reads as zeros; the size stays.

        Raises:
            OSError: with the name; EOPNOTSUPP where the file system has no holes.
        """
        await self._change_blocks(partial(punch_hole, self._fd, offset, length))

    async def _change_blocks(self, change: Callable[[], None]) -> None:
        await self._take_turn()
        try:
            self._check_writable()
            await self._write_out()
            self._drop_read_ahead()
            await self._do(self._backend.call(change))
        except OSError as error:
            if error.filename is None and not isinstance(error, io.UnsupportedOperation):
                raise OSError(error.errno, error.strerror, self.name) from error
            raise
        finally:
            self._end_turn()

    async def _truncate_in_turn(self, size: int | None) -> int:
        try:
            self._check_writable()
            wanted = None if size is None else index(size)
            await self._write_out()
            length = self._position if wanted is None else wanted
            if length < 0:
                raise OSError(errno.EINVAL, f"a file cannot be {length} bytes long")
            self._drop_read_ahead()
            await self._do(self._backend.truncate(self._fd, length))
            return length
        finally:
            self._end_turn()

    # ---- the position ---------------------------------------------------------------------------

    async def _seek_in_turn(self, offset: int, whence: int) -> int:
        try:
            offset = index(offset)
            self._check_open()
            self._check_seekable()
            if self._appending:
                await self._write_out()  # it would set the position that follows
            if whence == os.SEEK_SET:
                position = offset
            elif whence == os.SEEK_CUR:
                position = self._position + offset
            elif whence == os.SEEK_END:
                await self._write_out()
                position = self._size() + offset
            else:
                raise ValueError(f"whence {whence} is not SEEK_SET, SEEK_CUR or SEEK_END")
            if not 0 <= position <= _LARGEST_POSITION:
                where = "before the beginning" if position < 0 else "beyond the largest"
                raise OSError(errno.EINVAL, f"position {position} is {where} of a file")
            if not 0 <= position - self._ahead_at <= len(self._ahead):
                self._next_read_ahead = self._buffer_size
            self._position = position
            return position
        finally:
            self._end_turn()

    async def _tell_in_turn(self) -> int:
        try:
            self._check_open()
            self._check_seekable()
            if self._appending:
                await self._write_out()  # only this determines the position
            return self._position
        finally:
            self._end_turn()

    # ---- within a turn --------------------------------------------------------------------------

    async def _fill(self, size: int, further: int = 0) -> bytes:
        """Read ahead from ``further`` bytes after the position; returns the buffered data."""
        await self._write_out()
        start = self._position + further
        if self._buffer_size:
            if size < self._next_read_ahead:
                size = self._next_read_ahead
            if start == self._ahead_at + len(self._ahead) and self._seekable:
                # Sequential so far: larger reads pay.
                self._next_read_ahead = min(
                    2 * self._next_read_ahead, max(_LARGEST_READ_AHEAD, self._buffer_size)
                )
        elif not size:
            size = _UNBUFFERED_CHUNK
        data = b""
        if not self._is_end(start):
            data = await self._do(
                self._backend.read(self._fd, size, start if self._seekable else -1, self._alignment)
            )
        if self._seekable:
            self._ahead = data
            self._ahead_at = start
        else:
            self._ahead = self._buffered() + data
            self._ahead_at = self._position
        return data

    async def _read_more(self, data: bytes, size: int) -> bytes:
        """Complete a read of ``size`` bytes that begins with ``data``, at the same position."""
        if self._unwritten_size:
            await self._write_out()
        if not self._seekable:
            return await self._read_from_pipe(data, size)
        if self._is_end(self._position + len(data)):
            return data
        missing = size - len(data)
        if missing > _LARGEST_JOINED:
            # Read ``data`` again: joining the two would copy everything.
            return await self._do(
                self._backend.read(self._fd, size, self._position, self._alignment)
            )
        if missing < self._buffer_size:
            more = (await self._fill(missing, len(data)))[:missing]
        else:
            more = await self._do(
                self._backend.read(self._fd, missing, self._position + len(data), self._alignment)
            )
        return data + more if data else more

    async def _read_from_pipe(self, data: bytes, size: int | None) -> bytes:
        """Complete a read that begins with ``data``; of everything if ``size`` is None.

        What a read has taken that is then cancelled is buffered for the next one.
        """
        parts = [data]
        left = _CHUNK_OF_PIPE if size is None else size - len(data)
        if data and not self._buffer_size and size is not None:
            left = 0  # what a cancelled read has left; more may never come
        try:
            while left > 0:
                most = min(left, _LARGEST_OF_PIPE)
                more = await self._do(self._backend.read(self._fd, most, -1, 1))
                parts.append(more)
                if size is not None:
                    left -= len(more)
                if not more or (size is not None and not self._buffer_size):
                    break
        except BaseException:
            self._ahead = b"".join(parts)
            self._ahead_at = self._position
            raise
        self._ahead = b""
        return b"".join(parts)

    async def _readline_from_pipe(self, limit: int) -> bytes:
        """Read a line, or its first ``limit`` bytes if that is not negative.

        The parts are kept apart: to join each with those before it would take a time that grows
        with the square of the line's length. What a read has taken that is then cancelled is
        buffered for the next one.
        """
        parts: list[bytes] = []
        data, left = self._buffered(), max(limit, -1)
        try:
            while left:
                if not data:
                    await self._write_out()
                    size = self._next_read_ahead if self._buffer_size else _UNBUFFERED_CHUNK
                    data = await self._do(self._backend.read(self._fd, size, -1, 1))
                    if not data:
                        break
                most = len(data) if left < 0 else min(left, len(data))
                end = data.find(b"\n", 0, most) + 1
                parts.append(data[: end or most])
                data = data[end or most :]
                if end:
                    break
                left -= most if left > 0 else 0
        except BaseException:
            self._ahead = b"".join(parts)
            self._ahead_at = self._position
            raise
        line = parts[0] if len(parts) == 1 else b"".join(parts)
        self._position += len(line)
        self._ahead = data
        self._ahead_at = self._position
        return line

    async def _read_rest(self) -> bytes:
        await self._write_out()
        data = self._buffered()
        if not self._seekable:
            data = await self._read_from_pipe(data, None)
            self._position += len(data)
            return data
        left = self._size() - self._position
        if left > _LARGEST_JOINED:
            data = b""
        parts = [data]
        position = self._position + len(data)
        # Asking for one byte more shows that the file ends there.
        size = max(left - len(data), 0) + 1
        while not self._is_end(position):
            size += -size % self._alignment
            data = await self._do(self._backend.read(self._fd, size, position, self._alignment))
            parts.append(data)
            position += len(data)
            if len(data) < size:
                break
            size = max(size, self._buffer_size, 65536)
        self._position = position
        return parts[1] if len(parts) == 2 and not parts[0] else b"".join(parts)

    async def _read_into(self, view: memoryview, further: int) -> int:
        await self._write_out()
        if len(view) < self._buffer_size:
            data = (await self._fill(len(view), further))[: len(view)]
            view[: len(data)] = data
            return len(data)
        offset = self._position + further
        if self._is_end(offset):
            return 0
        return await self._do(self._backend.read_into(self._fd, view, offset, self._alignment))

    def _is_end(self, position: int) -> bool:
        """Whether direct reads have reached the end of the file here, inside a block.

        None can begin inside a block. Elsewhere a read shows where the end is.
        """
        return bool(position % self._alignment) and position >= self._size()

    async def _after_flush(self, operation: Any, what: Any, offset: int) -> Any:
        await self.flush()
        self._check_open()
        return await operation(self._fd, what, offset, self._alignment)
