"""``CompressedFile``, and ``open_compressed``, which makes one."""

from __future__ import annotations

import io
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    AnyStr,
    Generic,
    Literal,
    NoReturn,
    TypeVar,
    cast,
    overload,
)

from anyio.abc import AsyncResource

from penstock.files._archives.formats import Format, open_blocking
from penstock.files._archives.worker_turns import WorkerTurns
from penstock.files._backend import current_backend
from penstock.files._file_objects.opening import Opening
from penstock.files._file_objects.text_file import check_newline, text_encoding
from penstock.files._not_copied import refuse_to_copy

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import StrOrBytesPath

T = TypeVar("T")

_BLOCK = 64 << 10
"""Lines are read, and small writes made, in blocks of so many bytes: one thread's work each."""


class CompressedFile(AsyncResource, Generic[AnyStr]):
    """A compressed file, or a member of an archive: read and written on worker threads.

    Its methods are those of a file object, awaited. Calls run one at a time, in the order in which
    they were made. Lines are decompressed in blocks, and small writes compressed in blocks, so most
    of them need no thread. Compressed data are complete when ``close`` has returned.

    **Cancellation**: a cancelled await returns at once, but the thread goes on: a cancelled read
    has moved the position. A cancelled ``close`` is completed first.
    """

    def __init__(self, file: IO[AnyStr], turns: WorkerTurns, name: Any) -> None:
        self._file: IO[AnyStr] = file
        self._turns = turns
        self._name = name
        self._text = isinstance(file, io.TextIOBase)
        self._nothing: AnyStr = cast("Any", "" if self._text else b"")
        self._lines: deque[AnyStr] = deque()
        self._failure: Exception | None = None  # what has ended the block of these lines
        self._unwritten: list[AnyStr] = []
        self._unwritten_size = 0

    @property
    def name(self) -> Any:
        """The path, or the name of the member."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._file.closed

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._file.readable()

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._file.writable()

    # ---- reading --------------------------------------------------------------------------------

    async def read(self, size: int | None = -1) -> AnyStr:
        """Read ``size`` bytes or characters, fewer only at the end, or the rest."""
        return await self._turns.work(partial(self._read, -1 if size is None else size))

    def _read(self, size: int) -> AnyStr:
        parts: list[AnyStr] = []
        while self._lines and size:
            line = self._lines.popleft()
            if 0 <= size < len(line):
                self._lines.appendleft(line[size:])
                line = line[:size]
            parts.append(line)
            size -= len(line) if size > 0 else 0
        while size:  # a decompressor returns fewer bytes than it was asked for
            more = self._source().read(size)
            parts.append(more)
            if not more or size < 0:
                break
            size -= len(more)
        return parts[0] if len(parts) == 1 else self._nothing.join(parts)

    async def readinto(self, buffer: Any) -> int:
        """Read into a buffer until it is full or the file ends; returns the number of bytes."""
        with memoryview(buffer) as whole, whole.cast("B") as view:
            data: Any = await self.read(len(view))
            view[: len(data)] = data
            return len(data)

    async def readline(self, size: int | None = -1) -> AnyStr:
        """Read a line with its end, at most ``size`` long; empty at the end of the file."""
        return await self._turns.work(partial(self._readline, -1 if size is None else size))

    def _readline(self, size: int) -> AnyStr:
        if not self._lines:
            return self._source().readline(size)
        line = self._lines.popleft()
        if 0 <= size < len(line):
            self._lines.appendleft(line[size:])
            line = line[:size]
        return line

    async def readlines(self, hint: int | None = None) -> list[AnyStr]:
        """Read lines until the end, or until their total length exceeds ``hint``."""
        return await self._turns.work(partial(self._readlines, hint or -1))

    def _readlines(self, hint: int) -> list[AnyStr]:
        lines: list[AnyStr] = []
        total = 0
        while self._lines and (hint <= 0 or total <= hint):
            lines.append(self._lines.popleft())
            total += len(lines[-1])
        if hint <= 0 or total < hint:
            lines += self._source().readlines(hint - total if hint > 0 else -1)
        elif total == hint and (line := self._source().readline()):
            lines.append(line)
        return lines

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyStr:
        while self._lines and not self._turns.busy:
            backend = current_backend()
            if not backend.should_yield(len(self._lines[0])):
                return self._lines.popleft()
            await backend.yield_now()  # may be cancelled, or let another task take the line
        # Taken here: a cancelled call takes none, and no thread runs yet for the next one.
        if not await self._turns.work(self._has_line):
            raise StopAsyncIteration
        return self._lines.popleft()

    def _has_line(self) -> bool:
        if not self._lines:
            try:
                self._lines.extend(_lines_of(self._source(), _BLOCK))
            except Exception as error:
                if not self._lines:
                    raise
                self._failure = error  # raised behind the good lines, as by the built-in file
        return bool(self._lines)

    def _source(self) -> IO[AnyStr]:
        """The file, to be read. Raises what has ended a block of lines, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._file

    # ---- writing --------------------------------------------------------------------------------

    async def write(self, data: AnyStr) -> int:
        """Write all of ``data``; returns its length. Small writes are gathered first."""
        taken = self._checked(data)
        if not self._turns.busy and self._unwritten_size + len(taken) < _BLOCK:
            self._check_writable()
            self._take(taken)
        else:
            await self._turns.work(partial(self._write, taken))
        return len(taken)

    async def writelines(self, lines: Iterable[AnyStr]) -> None:
        """Write the lines one after the other, without adding line ends."""
        for line in lines:
            await self.write(line)

    def _checked(self, data: AnyStr) -> AnyStr:
        if self._text:
            if not isinstance(data, str):
                raise TypeError(f"write() argument must be str, not {type(data).__name__}")
            # What cannot be encoded fails here, not together with what was gathered before it.
            file: Any = self._file
            data.encode(file.encoding, file.errors)
            return data
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        return bytes(memoryview(data))  # bytes() makes zeros of a number

    def _check_writable(self) -> None:
        if self._file.closed:
            raise ValueError("I/O operation on closed file.")
        if not self._file.writable():
            raise io.UnsupportedOperation("the file was opened for reading only")

    def _take(self, data: AnyStr) -> None:
        self._unwritten.append(data)
        self._unwritten_size += len(data)

    def _write(self, data: AnyStr) -> None:
        self._check_writable()
        self._take(data)
        if self._unwritten_size >= _BLOCK:
            self._write_out()

    def _write_out(self) -> None:
        if self._unwritten:
            data, self._unwritten, self._unwritten_size = self._unwritten, [], 0
            self._file.write(self._nothing.join(data))

    async def flush(self) -> None:
        """Compress what was written, as far as the format allows, and pass it to the kernel."""
        await self._turns.work(self._flush)

    def _flush(self) -> None:
        self._write_out()
        self._file.flush()

    # ---- the position ---------------------------------------------------------------------------

    def seekable(self) -> bool:
        """Whether ``seek`` is possible; it decompresses everything up to the position."""
        return self._file.seekable()

    async def tell(self) -> int:
        """Return the position in the uncompressed data; in text, a number for ``seek`` only.

        Raises:
            OSError: in text that is being iterated over, as for the built-in file.
        """
        return await self._turns.work(self._tell)

    def _tell(self) -> int:
        self._write_out()
        if self._lines and self._text:
            raise OSError("telling position disabled by iteration")
        return self._file.tell() - sum(map(len, self._lines))

    async def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position in the uncompressed data; returns it."""
        return await self._turns.work(partial(self._seek, offset, whence))

    def _seek(self, offset: int, whence: int) -> int:
        self._write_out()
        if whence == 1 and not self._text:
            offset += self._tell()
            whence = 0
        position = self._file.seek(offset, whence)
        self._lines.clear()
        self._failure = None
        return position

    # ---- closing --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write the end of the compressed data, and close. Does nothing the second time."""
        await self._turns.finish(self._close)

    def _close(self) -> None:
        try:
            if not self._file.closed:
                self._write_out()
        finally:
            self._file.close()

    aclose = close

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self)

    def __del__(self) -> None:
        if getattr(self, "_unwritten", None) and not self._file.closed:
            try:
                warnings.warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=1, source=self)
            finally:  # also where the warning is an error
                self._close()

    def __repr__(self) -> str:
        return f"<CompressedFile name={self._name!r}>"


def _lines_of(file: IO[AnyStr], size: int) -> Iterator[AnyStr]:
    """Lines until they have ``size`` together. Not ``readlines``, of which an error takes all."""
    for line in file:
        yield line
        size -= len(line)
        if size <= 0:
            return


async def opened(make: Callable[[], T], close: Callable[[T], object]) -> T:
    """Open something on a worker thread; a cancelled await leaves nothing open."""
    backend = current_backend()
    operation = backend.call(make)
    try:
        return await operation
    except BaseException:
        operation.when_released(lambda made: None if made is None else close(made))
        raise


@overload
def open_compressed(
    path: StrOrBytesPath,
    mode: Literal["r", "rb", "w", "wb", "a", "ab", "x", "xb"] = "rb",
    *,
    format: Format | None = None,
    level: int | None = None,
) -> Opening[CompressedFile[bytes]]: ...


@overload
def open_compressed(
    path: StrOrBytesPath,
    mode: Literal["rt", "wt", "at", "xt"],
    *,
    format: Format | None = None,
    level: int | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Opening[CompressedFile[str]]: ...


def open_compressed(
    path: StrOrBytesPath,
    mode: str = "rb",
    *,
    format: Format | None = None,
    level: int | None = None,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Opening[Any]:
    """Open a gzip, bz2, xz or zstd file; ``await`` the result, or use it with ``async with``.

    Args:
        path: the file.
        mode: as for ``gzip.open``: bytes, or text if it ends in "t".
        format: "gzip", "bz2", "xz" or "zstd". Without it, a file that is read tells by its first
            bytes, and one that is written by its name: .gz, .bz2, .xz, .zst.
        level: how much time to spend on compression, by the numbers of the format.
        encoding: of text; the locale's by default, as for ``open``.
        errors: of text, as for ``open``.
        newline: of text, as for ``open``.

    Cancellation: a cancelled await leaves nothing open.

    Raises:
        OSError: when awaited, with the file's name; when read, if the file has another format,
            as ``gzip`` does. EOFError if the file has been cut off.
        ValueError: for a mode or a format that does not exist, or if the format is not known.
        ModuleNotFoundError: for zstd before Python 3.14, without the extra ``compress``.
    """
    text = mode.endswith("t")
    plain = mode.removesuffix("t").removesuffix("b")
    if plain not in ("r", "w", "a", "x") or len(mode) > 2:
        raise ValueError(f"invalid mode: {mode!r}")
    if text:
        check_newline(newline)
        encoding = text_encoding(io.text_encoding(encoding, 2))
    elif (encoding, errors, newline) != (None, None, None):
        raise ValueError("a binary file has no encoding, errors or newline; open it as text")

    def make() -> IO[Any]:
        file = open_blocking(path, plain, format, level)
        return io.TextIOWrapper(file, encoding, errors, newline) if text else file

    async def open_now() -> CompressedFile[Any]:
        file = await opened(make, lambda made: made.close())
        return CompressedFile(file, WorkerTurns(), path)

    return Opening(open_now)
