"""``AsyncFile``: what binary and text files have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, AnyStr, Generic

if TYPE_CHECKING:
    from typing import Self

__all__ = ["AsyncFile"]


class AsyncFile(Generic[AnyStr]):
    """An open file whose methods are awaited; ``penstock.files.open`` makes one.

    The methods have the names, arguments and results of the built-in file object's, and raise what
    that raises: ValueError for a closed file, ``io.UnsupportedOperation`` for what its mode does
    not allow, and OSError's kin. It belongs to the event loop that it was opened on.

    **The position** is the file object's own (the descriptor's does not move, but for what has no
    positions: pipes and terminals). Calls that use it have their turns in the order in which they
    were made, so several tasks may use one file.

    **Cancellation**: a cancelled await returns at once, and the position stays where it was. A read
    can simply be made again. Of a write it is not known whether it was made: made again at the same
    place it does no harm, but a file in append mode may then have the data twice. The next call
    waits until the kernel is done with the cancelled one.

    A file that is let go of without ``close`` is reported with ResourceWarning, as the built-in's.
    """

    __slots__ = ("__weakref__",)

    @property
    def name(self) -> Any:
        """What was opened: a path, as it was given, or a descriptor."""
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
        """Whether it has positions: not a pipe or a terminal."""
        raise NotImplementedError

    async def read(self, size: int | None = -1) -> AnyStr:
        """Read ``size`` bytes or characters, or all that is left.

        Less only at the end of the file; empty at the end.
        """
        raise NotImplementedError

    async def readline(self, size: int | None = -1) -> AnyStr:
        """Read a line with its end, at most ``size`` long; empty at the end of the file.

        Lines that were read ahead are handed out without asking the kernel.
        """
        raise NotImplementedError

    async def readlines(self, hint: int | None = None) -> list[AnyStr]:
        """Read lines until the end, or until they are longer than ``hint`` together."""
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

        What is buffered is in the file after ``flush`` or ``close``.
        """
        raise NotImplementedError

    async def writelines(self, lines: Iterable[AnyStr]) -> None:
        """Write one after the other; nothing is put between them."""
        for line in lines:
            await self.write(line)

    async def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position, from the beginning, here or the end; returns the new one."""
        raise NotImplementedError

    async def tell(self) -> int:
        """Return the position. In a text file: a number for ``seek`` only."""
        raise NotImplementedError

    async def truncate(self, size: int | None = None) -> int:
        """Make the file ``size`` long (by default: end it here); returns the size.

        The position stays.
        """
        raise NotImplementedError

    async def flush(self) -> None:
        """Hand to the kernel what is buffered."""
        raise NotImplementedError

    async def fsync(self) -> None:
        """Flush, and wait until data and metadata are on the device (fsync(2))."""
        raise NotImplementedError

    async def fdatasync(self) -> None:
        """Flush, and wait until the data is on the device (fdatasync(2))."""
        raise NotImplementedError

    async def close(self) -> None:
        """Flush and close; waits for the operations in flight. Does nothing the second time.

        The descriptor is closed in any case: when flushing fails, which is raised, and when the
        await is cancelled; what is buffered is then still written.
        """
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
