"""``AsyncFile``: the interface of binary and text files."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, Generic

from anyio.abc import AsyncResource

from penstock._core import split_lines

if TYPE_CHECKING:
    from typing import Self

    from penstock.files._backend import FileBackend

FEED, UNIVERSAL, CARRIAGE, RETURN_FEED = range(4)
"""Where lines end, for the native part: at "\\n", at each kind, at "\\r", at "\\r\\n"."""

_SPLIT_AT_ONCE = 64 << 10
_JOINED_LINES = 1024
_JOINED_LENGTH = 64 << 10


def _take(lines: Iterator[AnyStr], batch: list[AnyStr]) -> None:
    """Take lines that are made one by one: no more than are joined, since each may be long."""
    length = 0
    for line in islice(lines, _JOINED_LINES):
        batch.append(line)
        length += len(line)
        if length >= _JOINED_LENGTH:
            return


async def split_all(content: bytes, backend: FileBackend) -> list[bytes]:
    """Return the lines of a content in memory, and yield to other tasks now and then."""
    lines: list[bytes] = []
    begin = split_lines(content, 0, _SPLIT_AT_ONCE, lines)
    while begin < len(content):
        if backend.should_yield(_SPLIT_AT_ONCE):
            await backend.yield_now()
        begin = split_lines(content, begin, _SPLIT_AT_ONCE, lines)
    return lines


class AsyncFile(AsyncResource, Generic[AnyStr]):
    """An open file whose methods are awaited; ``penstock.files.open`` makes one.

    The methods have the names, arguments and results of the built-in file object, and raise the
    same errors: ValueError for a closed file, ``io.UnsupportedOperation`` for a call that its mode
    does not allow, and OSError. It belongs to the event loop that it was opened on.

    **Position**: the file object has its own. The descriptor's position does not move, except on
    pipes and terminals, which have none. Calls that use the position run one at a time, in the
    order in which they were made, so several tasks may use one file. In append mode data are
    written behind the end, and the position follows them; ``tell`` and ``seek`` flush the file to
    know it. (The built-in's buffered file takes them to be where they were buffered until it is
    flushed.)

    **Cancellation**: a cancelled await returns at once, and the position does not change. A
    cancelled read can be repeated, of a pipe too. A cancelled write may or may not have taken
    effect: repeating it at the same position is safe, but a pipe, or a file in append mode, may
    then have the data twice. Data that were buffered are written once. The next call waits until
    the kernel is done with the cancelled one.

    A file that is garbage collected without ``close`` is reported with ResourceWarning, as the
    built-in's is.
    """

    __slots__ = ()

    @property
    def name(self) -> Any:
        """The path as it was given, or the descriptor."""
        raise NotImplementedError

    @property
    def mode(self) -> str:
        """The mode that it was opened with."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether it is closed, or being closed."""
        raise NotImplementedError

    def fileno(self) -> int:
        """The descriptor. Its own position is not the file's."""
        raise NotImplementedError

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        raise NotImplementedError

    def readable(self) -> bool:
        """Whether its mode allows reading."""
        raise NotImplementedError

    def writable(self) -> bool:
        """Whether its mode allows writing."""
        raise NotImplementedError

    def seekable(self) -> bool:
        """Whether it has a position. Pipes and terminals have none."""
        raise NotImplementedError

    async def read(self, size: int | None = -1) -> AnyStr:
        """Read ``size`` bytes or characters, or the rest of the file.

        The result is shorter only at the end of the file, and empty there.
        """
        raise NotImplementedError

    async def readline(self, size: int | None = -1) -> AnyStr:
        """Read a line with its end, at most ``size`` long; empty at the end of the file.

        Lines that were read ahead are returned without a system call.
        """
        raise NotImplementedError

    async def readlines(self, hint: int | None = None) -> list[AnyStr]:
        """Read lines until the end, or until their total length exceeds ``hint``."""
        lines: list[AnyStr] = []
        total = 0
        while line := await self.readline():
            lines.append(line)
            total += len(line)
            if hint is not None and 0 < hint < total:
                break
        return lines

    async def write(self, data: AnyStr) -> int:
        """Write all of ``data``; returns its length.

        Buffered data are in the file after ``flush`` or ``close``.
        """
        raise NotImplementedError

    async def writelines(self, lines: Iterable[AnyStr]) -> None:
        """Write the lines one after the other, without adding line ends.

        If one of them, or the iterable, raises an error, those before it have been written.
        """
        nothing = self._buffered_nothing()
        if nothing is None:
            for line in lines:
                await self.write(line)
            return
        if type(lines) is list or type(lines) is tuple:
            begin = 0
            while part := lines[begin : begin + _JOINED_LINES]:
                begin += len(part)
                await self._write_joined(part, nothing)
            return
        rest = iter(lines)
        while True:
            batch: list[AnyStr] = []
            try:
                _take(rest, batch)
            except BaseException:
                await self._write_joined(batch, nothing)  # the lines before the error
                raise
            if not batch:
                return
            await self._write_joined(batch, nothing)

    async def _write_joined(self, lines: Sequence[AnyStr], nothing: AnyStr) -> None:
        """Write lines in as few calls as their lengths allow, or one by one up to an error."""
        length = 0
        with suppress(TypeError):  # of what is not a line, which is found below
            length = sum(map(len, lines))
        if length > 2 * _JOINED_LENGTH and len(lines) > 1:
            half = len(lines) // 2
            await self._write_joined(lines[:half], nothing)
            await self._write_joined(lines[half:], nothing)
            return
        if len(lines) > 1:
            try:
                await self.write(nothing.join(lines))
            except (TypeError, UnicodeError):
                pass  # nothing was written; the lines before the one at fault are
            else:
                return
        for line in lines:
            await self.write(line)

    def _buffered_nothing(self) -> AnyStr | None:
        """Return an empty string of the file's type, or None if each write is a write of its own.

        Then ``writelines`` may join lines: nobody can see where one ends.
        """
        return None

    async def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, relative to the beginning, to itself or to the end; returns it."""
        raise NotImplementedError

    async def tell(self) -> int:
        """Return the position. In a text file: a number for ``seek`` only."""
        raise NotImplementedError

    async def truncate(self, size: int | None = None) -> int:
        """Make the file ``size`` long, by default as long as the position; returns the size.

        The position does not change.
        """
        raise NotImplementedError

    async def flush(self) -> None:
        """Pass the buffered data to the kernel."""
        raise NotImplementedError

    async def fsync(self) -> None:
        """Flush, and wait until data and metadata are on the device (fsync(2))."""
        raise NotImplementedError

    async def fdatasync(self) -> None:
        """Flush, and wait until the data is on the device (fdatasync(2))."""
        raise NotImplementedError

    async def close(self) -> None:
        """Flush and close; waits for the operations in flight. Does nothing the second time.

        The descriptor is always closed. If flushing fails, the error is raised. If the await
        is cancelled, the buffered data are still written.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close; the name that ``contextlib.aclosing`` calls."""
        await self.close()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[AnyStr]:
        return self._next_line()

    async def _next_line(self) -> AnyStr:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<{type(self).__name__} name={self.name!r} mode={self.mode!r}{state}>"
