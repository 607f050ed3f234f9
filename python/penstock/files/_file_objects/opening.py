"""``open``: checks its arguments, opens the descriptor and makes the file object."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import warnings
from collections.abc import Callable, Generator
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from anyio.abc import AsyncResource

from penstock._core import OpeningCore, set_file_classes, usual_opening
from penstock.files._backend import FileBackend, current_backend
from penstock.files._file_objects.async_file import AsyncFile
from penstock.files._file_objects.binary_file import BinaryFile
from penstock.files._file_objects.modes import OpenMode, parse_mode
from penstock.files._file_objects.text_file import TextFile, check_newline, text_encoding

if TYPE_CHECKING:
    from _typeshed import (
        FileDescriptorOrPath,
        OpenBinaryMode,
        OpenTextMode,
        StrOrBytesPath,
    )

F = TypeVar("F", bound=AsyncResource)
Opener = Callable[["StrOrBytesPath", int], int]

_LARGEST_BUFFER = (1 << 31) - 1  # the limit of the built-in open()
_USUAL_ALIGNMENT = 4096
"""Of direct transfers, if the kernel (before Linux 6.1) or the file system does not report it."""


class Opening(OpeningCore, Generic[F]):
    """A file or archive that is not open yet: ``await`` it, or use it with ``async with``."""

    __slots__ = ()

    if TYPE_CHECKING:  # the native part has them

        def __await__(self) -> Generator[Any, Any, F]: ...
        async def __aenter__(self) -> F: ...
        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            value: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenTextMode = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    flags: int = 0,
) -> Opening[TextFile]: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    flags: int = 0,
) -> Opening[BinaryFile]: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    flags: int = 0,
) -> Opening[AsyncFile[Any]]: ...


def open(
    file: FileDescriptorOrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    flags: int = 0,
) -> Opening[Any]:
    """Open a file; ``await`` the result, or use it with ``async with``.

    The arguments are those of the built-in ``open``. ``opener`` is called on a worker thread.
    ``flags`` are further flags of open(2): ``os.O_DIRECT``, ``os.O_DSYNC``, ``os.O_NOFOLLOW``, ...
    A file opened with ``os.O_DIRECT`` is binary and unbuffered. The sizes, offsets and buffers of
    its transfers must be multiples of the device's block; others raise ValueError before anything
    is transferred. ``aligned_buffer`` makes such buffers.

    Cancellation: a cancelled await leaves nothing open.

    Raises:
        ValueError: for arguments that exclude each other.
        OSError: when awaited, with the file's name.
    """
    if mode == "r" and encoding != "utf-8" and (encoding is None or type(encoding) is str):
        encoding = text_encoding(io.text_encoding(encoding, 2))
    usual: Opening[Any] | None = usual_opening(
        file, mode, buffering, encoding, errors, newline, closefd, opener, flags
    )
    if usual is not None:
        return usual
    parsed = parse_mode(mode)
    binary = parsed.binary
    buffering = index(buffering)
    if buffering > _LARGEST_BUFFER:
        raise OverflowError(f"{buffering} bytes are too large a buffer; give {_LARGEST_BUFFER}")
    for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
        if not isinstance(value, str | None):
            raise TypeError(f"{name} must be a string or None, not {type(value).__name__}")
    if binary:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(f"a binary file has no {name}; leave it out, or open as text")
    check_newline(newline)
    if buffering == 0 and not binary:
        raise ValueError("a text file cannot be unbuffered; open it as binary, or with buffering=1")
    if not isinstance(file, int):
        file = os.fspath(file)
        if not closefd:
            raise ValueError("closefd=False is for descriptors; a file opened by name is closed")
    direct = bool(flags & os.O_DIRECT)
    if direct and (not binary or buffering > 0):
        raise ValueError("a file opened with O_DIRECT is binary, and not buffered")
    if binary and buffering == 1:
        warnings.warn(
            "buffering=1 means line buffering, which a binary file does not support; the default "
            "buffer is used",
            RuntimeWarning,
            stacklevel=2,
        )
    if not binary:
        encoding = text_encoding(io.text_encoding(encoding, 2))

    async def open_now() -> AsyncFile[Any]:
        raw = await _open_binary(file, parsed, buffering, closefd, opener, flags)
        if binary:
            return raw
        assert encoding is not None
        line_buffering = buffering == 1 or (buffering < 0 and raw.isatty())
        return TextFile(raw, mode, encoding, errors or "strict", newline, line_buffering)

    return Opening(open_now)


async def _open_usual(path: StrOrBytesPath, mode: str, encoding: str | None) -> AsyncFile[Any]:
    """Open a file for reading that the native part could not open from the page cache."""
    raw = await _open_binary(path, parse_mode(mode), -1, True, None, 0)
    if encoding is None:
        return raw
    return TextFile(raw, mode, encoding, "strict", None, raw.isatty())


async def _open_binary(
    file: FileDescriptorOrPath,
    mode: OpenMode,
    buffering: int,
    closefd: bool,
    opener: Opener | None,
    flags: int,
) -> BinaryFile:
    backend = current_backend()
    if isinstance(file, int):
        return _make(backend, file, file, mode, buffering, closefd, None)
    all_flags = mode.flags | flags | os.O_CLOEXEC
    if opener is None:
        fd = await backend.open(file, all_flags, 0o666)
    else:
        fd = await _open_by(opener, backend, file, all_flags)
    try:
        known_flags = all_flags if opener is None else None
        return _make(backend, fd, file, mode, buffering, True, known_flags)
    except BaseException:
        backend.abandon(fd)
        raise


async def _open_by(opener: Opener, backend: FileBackend, path: StrOrBytesPath, flags: int) -> int:
    opening = backend.call(lambda: opener(path, flags))
    try:
        fd = await opening
    except BaseException:
        opening.when_released(lambda opened: None if opened is None else backend.abandon(opened))
        raise
    if not isinstance(fd, int):
        raise TypeError(f"the opener returned {type(fd).__name__}, not a descriptor")
    if fd < 0:
        raise ValueError(f"the opener returned {fd}, which is not a descriptor")
    os.set_inheritable(fd, False)
    return fd


def _make(
    backend: FileBackend,
    fd: int,
    name: Any,
    mode: OpenMode,
    buffering: int,
    owns_fd: bool,
    flags: int | None,
) -> BinaryFile:
    """Make a file of a descriptor, opened here with ``flags``, or by the caller if it is None."""
    try:
        file_mode, size, block_size, memory_alignment, offset_alignment = backend.describe(fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error
    if stat.S_ISDIR(file_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    regular = stat.S_ISREG(file_mode)
    at_beginning = regular and flags is not None
    position = 0 if at_beginning else _position_of(fd)
    if position is not None and mode.appending:
        position = size if regular else os.lseek(fd, 0, os.SEEK_END)
    if flags is None:
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    alignment = 1
    if flags & os.O_DIRECT:
        if position is not None:  # a pipe of packets (pipe(2)) has no blocks
            alignment = max(memory_alignment, offset_alignment) or _USUAL_ALIGNMENT
        if buffering > 0 or not mode.binary:
            raise ValueError("a file opened with O_DIRECT is binary, and not buffered")
        buffering = 0
    if buffering < 0 or buffering == 1:
        buffering = max(io.DEFAULT_BUFFER_SIZE, block_size)
    # Not a server's or a daemon's: it may have to answer before a write returns.
    cached = regular and not flags & (os.O_DIRECT | os.O_SYNC | os.O_DSYNC)
    cached = cached and not (mode.writable and backend.is_remote(fd))
    return BinaryFile(
        backend,
        fd,
        name,
        mode,
        position=position,
        regular=regular,
        size=size,
        cached=cached,
        buffer_size=buffering,
        alignment=alignment,
        owns_fd=owns_fd,
    )


def _position_of(fd: int) -> int | None:
    try:
        return os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        return None


set_file_classes(Opening, BinaryFile, TextFile, _open_usual, io.DEFAULT_BUFFER_SIZE)
