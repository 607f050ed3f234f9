"""Python's own file objects, with asynchronous methods."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anyio.abc import AsyncResource

from penstock.files._backend import Operation, current_backend
from penstock.files._file_objects.turns import TakesTurns

if TYPE_CHECKING:
    from typing import Self

__all__ = ["WrappedFile", "wrap"]

F = TypeVar("F", bound=Any)


class WrappedFile(TakesTurns, AsyncResource, Generic[F]):
    """A Python file object whose methods run on a worker thread.

    For file objects that the engine cannot read by a descriptor: a spooled temporary file, a file
    object of another library, ``sys.stdin``. A file that :func:`penstock.files.open` opens needs no
    thread.

    Calls run one at a time, in the order in which they were made. **Cancellation**: the await
    returns at once; the call continues, and the next one waits for it.
    """

    def __init__(self, find: Callable[[], F]) -> None:
        """``find`` returns the file; it is called by each method."""
        self._find = find
        self._turn_taken = False
        self._turn_waiting = None

    @property
    def _file(self) -> F:
        return self._find()

    @property
    def name(self) -> Any:
        return self._find().name

    @property
    def mode(self) -> Any:
        return self._find().mode

    @property
    def closed(self) -> bool:
        return bool(self._find().closed)

    @property
    def encoding(self) -> Any:
        return self._find().encoding

    @property
    def errors(self) -> Any:
        return self._find().errors

    @property
    def newlines(self) -> Any:
        return self._find().newlines

    @property
    def line_buffering(self) -> Any:
        return self._find().line_buffering

    @property
    def write_through(self) -> Any:
        return self._find().write_through

    @property
    def buffer(self) -> Any:
        return self._find().buffer

    def fileno(self) -> int:
        return int(self._find().fileno())

    def detach(self) -> Any:
        """Return the underlying file, as the file's own ``detach`` does."""
        return self._find().detach()

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        await self._take_turn()
        operation: Operation[Any] | None = None
        try:
            method = getattr(self._find(), name)
            operation = current_backend().call(partial(method, *arguments, **options))
            return await operation
        finally:
            if operation is None:
                self._give_up_turn()
            else:
                operation.when_released(lambda _: self._give_up_turn())

    async def read(self, *size: Any) -> Any:
        return await self._call("read", *size)

    async def read1(self, *size: Any) -> Any:
        return await self._call("read1", *size)

    async def readall(self) -> Any:
        return await self._call("readall")

    async def readinto(self, buffer: Any) -> Any:
        return await self._call("readinto", buffer)

    async def readline(self, *size: Any) -> Any:
        return await self._call("readline", *size)

    async def readlines(self, *hint: Any) -> Any:
        return await self._call("readlines", *hint)

    async def peek(self, *size: Any) -> Any:
        return await self._call("peek", *size)

    async def write(self, data: Any) -> Any:
        return await self._call("write", data)

    async def writelines(self, lines: Iterable[Any]) -> None:
        await self._call("writelines", lines)

    async def seek(self, offset: int, whence: int = 0) -> Any:
        return await self._call("seek", offset, whence)

    async def tell(self) -> Any:
        return await self._call("tell")

    async def truncate(self, *size: Any) -> Any:
        return await self._call("truncate", *size)

    async def flush(self) -> None:
        await self._call("flush")

    async def reconfigure(self, **settings: Any) -> None:
        """Change how a text file treats text, as ``io.TextIOWrapper.reconfigure``."""
        await self._call("reconfigure", **settings)

    async def isatty(self) -> bool:
        return bool(await self._call("isatty"))

    async def readable(self) -> bool:
        return bool(await self._call("readable"))

    async def writable(self) -> bool:
        return bool(await self._call("writable"))

    async def seekable(self) -> bool:
        return bool(await self._call("seekable"))

    async def rollover(self) -> None:
        """Put a spooled temporary file on the disk."""
        await self._call("rollover")

    async def close(self) -> None:
        await self._call("close")

    aclose = close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._find()!r}>"


def wrap(file: io.IOBase) -> WrappedFile[Any]:
    """Return a file object with asynchronous methods for one of Python's.

    Raises:
        TypeError: if ``file`` is no file object.
    """
    if not isinstance(file, io.IOBase):
        raise TypeError(f"wrap() takes a file object, not {type(file).__name__}")
    return WrappedFile(lambda: file)
