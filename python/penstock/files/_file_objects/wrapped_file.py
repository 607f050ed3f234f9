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
        """The file's own ``name``: a path, a descriptor, or None."""
        return self._find().name

    @property
    def mode(self) -> Any:
        """The mode in which the file was opened."""
        return self._find().mode

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._find().closed)

    @property
    def encoding(self) -> Any:
        """The encoding of a text file. AttributeError for a binary one."""
        return self._find().encoding

    @property
    def errors(self) -> Any:
        """How a text file treats what its encoding lacks. AttributeError for a binary one."""
        return self._find().errors

    @property
    def newlines(self) -> Any:
        """The line ends that a text file has met. AttributeError for a binary one."""
        return self._find().newlines

    @property
    def line_buffering(self) -> Any:
        """Whether a text file is flushed at each line end. AttributeError for a binary one."""
        return self._find().line_buffering

    @property
    def write_through(self) -> Any:
        """Whether a text file keeps no text back. AttributeError for a binary one."""
        return self._find().write_through

    @property
    def buffer(self) -> Any:
        """The binary file below a text file; its methods block. AttributeError for a binary one."""
        return self._find().buffer

    def fileno(self) -> int:
        """The file's descriptor.

        Raises:
            OSError: the file has none.
            ValueError: the file is closed.
        """
        return int(self._find().fileno())

    def detach(self) -> Any:
        """Return the underlying file, as the file's own ``detach`` does.

        Raises:
            RuntimeError: while a call is in flight, whose thread uses the file.
        """
        if self._turn_taken:
            raise RuntimeError("a call of this file is in flight; await it before detach()")
        return self._find().detach()

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        await self._take_turn()
        operation: Operation[Any] | None = None
        try:
            method = getattr(self._find(), name)
            operation = current_backend().call(partial(method, *arguments, **options)).start()
            return await operation
        finally:
            if operation is None:
                self._give_up_turn()
            else:
                operation.when_released(lambda _: self._give_up_turn())

    async def read(self, *size: Any) -> Any:
        """Read up to ``size`` bytes or characters, all that is left by default.

        Raises:
            OSError: as the file's own method does.
            ValueError: the file is closed.
        """
        return await self._call("read", *size)

    async def read1(self, *size: Any) -> Any:
        """Read up to ``size`` bytes by at most one system call. AttributeError for a text file."""
        return await self._call("read1", *size)

    async def readall(self) -> Any:
        """Read all that is left. AttributeError for a file that is not raw."""
        return await self._call("readall")

    async def readinto(self, buffer: Any) -> Any:
        """Fill ``buffer``, and return the number of bytes. AttributeError for a text file.

        Cancellation: the worker may still write into ``buffer`` afterwards; do not use it before
        the next call of this file has returned.
        """
        return await self._call("readinto", buffer)

    async def readline(self, *size: Any) -> Any:
        """Read a line, of at most ``size`` bytes or characters; empty at the file's end."""
        return await self._call("readline", *size)

    async def readlines(self, *hint: Any) -> Any:
        """Read lines until the end, or until their total length reaches ``hint``."""
        return await self._call("readlines", *hint)

    async def peek(self, *size: Any) -> Any:
        """Return buffered bytes without moving the position. AttributeError for a text file."""
        return await self._call("peek", *size)

    async def write(self, data: Any) -> Any:
        """Write ``data``, and return how many bytes or characters were written.

        Raises:
            OSError: as the file's own method does.
            ValueError: the file is closed.
            TypeError: ``data`` is text for a binary file, or bytes for a text file.

        Cancellation: the data are written all the same.
        """
        return await self._call("write", data)

    async def writelines(self, lines: Iterable[Any]) -> None:
        """Write each of ``lines``; no line ends are added. A worker thread iterates over them."""
        await self._call("writelines", lines)

    async def seek(self, offset: int, whence: int = 0) -> Any:
        """Move the position, and return it. ``whence`` is as in ``io.IOBase.seek``."""
        return await self._call("seek", offset, whence)

    async def tell(self) -> Any:
        """Return the position: a number of bytes, for a text file an opaque number."""
        return await self._call("tell")

    async def truncate(self, *size: Any) -> Any:
        """Make the file ``size`` bytes long, by default up to the position; returns the size."""
        return await self._call("truncate", *size)

    async def flush(self) -> None:
        """Pass the buffered data to the kernel, or to what is below the file."""
        await self._call("flush")

    async def reconfigure(self, **settings: Any) -> None:
        """Change how a text file treats text, as ``io.TextIOWrapper.reconfigure``."""
        await self._call("reconfigure", **settings)

    async def isatty(self) -> bool:
        """Whether the file is a terminal."""
        return bool(await self._call("isatty"))

    async def readable(self) -> bool:
        """Whether the file can be read."""
        return bool(await self._call("readable"))

    async def writable(self) -> bool:
        """Whether the file can be written."""
        return bool(await self._call("writable"))

    async def seekable(self) -> bool:
        """Whether the file has positions."""
        return bool(await self._call("seekable"))

    async def rollover(self) -> None:
        """Put a spooled temporary file on the disk."""
        await self._call("rollover")

    async def close(self) -> None:
        """Flush and close the file, after the calls made before. Repeated calls do nothing.

        Cancellation: the file is closed all the same.
        """
        backend = current_backend()
        closing: list[Operation[Any]] = []

        def begin() -> None:
            """Begin to close, with the turn taken; it ends when the file is closed."""
            try:
                closing.append(backend.call(self._find().close).start())
            except BaseException:
                self._give_up_turn()
                raise
            closing[0].when_released(lambda _: self._give_up_turn())

        try:
            await self._take_turn()
        except BaseException:
            self._take_turn_later(begin)
            raise
        begin()
        await closing[0]

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
        TypeError: if ``file`` is not a file object.
    """
    if not isinstance(file, io.IOBase):
        raise TypeError(f"wrap() takes a file object, not {type(file).__name__}")
    return WrappedFile(lambda: file)
