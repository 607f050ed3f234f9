"""Temporary files and folders, made asynchronous, under :mod:`tempfile`'s names.

Each takes the arguments of its namesake there. The engine reads and writes the files. Only a
spooled file, which begins in memory, is Python's own and is called on a worker thread.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock.files._backend import current_backend
from penstock.files._file_objects.async_file import AsyncFile
from penstock.files._file_objects.modes import parse_mode
from penstock.files._file_objects.opening import Opening, open
from penstock.files._file_objects.wrapped_file import WrappedFile

if TYPE_CHECKING:
    from typing import Self

__all__ = ["NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile"]


def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,
    *,
    errors: str | None = None,
) -> Opening[AsyncFile[Any]]:
    """Open a file without a name, which is deleted when it is closed.

    ``await`` the result, or use it with ``async with``, as that of :func:`penstock.files.open`.
    """
    parse_mode(mode)

    def create() -> int:
        with tempfile.TemporaryFile("w+b", 0, suffix=suffix, prefix=prefix, dir=dir) as file:
            return os.dup(file.fileno())

    async def open_now() -> AsyncFile[Any]:
        fd = await _created(create)
        return await _opened(fd, mode, buffering, encoding, errors, newline)

    return Opening(open_now)


def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,
    delete: bool = True,
    delete_on_close: bool = True,
    *,
    errors: str | None = None,
) -> Opening[Any]:
    """Open a file with a name, which is removed when it is closed.

    ``await`` the result, or use it with ``async with``. With ``delete_on_close=False`` the file is
    removed at the end of the ``async with``, with ``delete=False`` never. Its ``name`` is its path.
    """
    parse_mode(mode)

    async def open_now() -> Any:
        created: list[str] = []

        def create() -> int:
            fd, path = tempfile.mkstemp(suffix, prefix, dir)
            created.append(path)
            return fd

        def remove() -> None:
            with contextlib.suppress(OSError):
                os.unlink(created[0])

        fd = await _created(create, remove)
        try:
            file = await _opened(fd, mode, buffering, encoding, errors, newline)
        except BaseException:
            remove()
            raise
        return _NamedFile(file, created[0], delete, delete_on_close)

    return _NamedOpening(open_now)


class _NamedFile:
    """An open file that is removed when it is closed."""

    def __init__(
        self, file: AsyncFile[Any], name: str, delete: bool, delete_on_close: bool
    ) -> None:
        self._file = file
        self.name = name
        self.delete = delete
        self._delete_on_close = delete_on_close

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def __del__(self) -> None:
        """Remove a file that was not closed, as :mod:`tempfile` does."""
        if self.delete:
            with contextlib.suppress(OSError):
                os.unlink(self.name)

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot copy or pickle the temporary file {self.name!r}")

    async def close(self) -> None:
        await self._close(self.delete and self._delete_on_close)

    async def aclose(self) -> None:
        await self.close()

    async def _close(self, remove: bool) -> None:
        try:
            await self._file.close()
        finally:
            if remove:
                self.delete = False
                removal = current_backend().unlink(self.name)
                await removal.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(self.delete)

    def __aiter__(self) -> Any:
        return self._file.__aiter__()

    def __repr__(self) -> str:
        return f"<temporary file {self.name!r}>"


class _NamedOpening(Opening[Any]):
    __slots__ = ()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._file is not None
        await self._file.__aexit__(kind, value, traceback)


def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,
    *,
    errors: str | None = None,
) -> Opening[Any]:
    """Open a file in memory, which moves to the disk when it is larger than ``max_size``.

    ``await`` the result, or use it with ``async with``.
    """

    async def open_now() -> WrappedFile[Any]:
        file: Any = await current_backend().call(
            lambda: tempfile.SpooledTemporaryFile(  # noqa: SIM115 - the caller closes it
                max_size, mode, buffering, encoding, newline, suffix, prefix, dir, errors=errors
            )
        )
        return WrappedFile(lambda: file)

    return Opening(open_now)


class TemporaryDirectory:
    """A folder that is removed with its contents.

    ``async with`` returns its path. ``await`` returns the object: ``name`` is the path, and
    ``cleanup`` removes the folder. With ``ignore_cleanup_errors`` what cannot be removed stays
    without an error. With ``delete=False`` only ``cleanup`` removes it.

    Cancellation: a folder that is made nevertheless is removed.
    """

    def __init__(
        self,
        suffix: str | None = None,
        prefix: str | None = None,
        dir: Any = None,
        ignore_cleanup_errors: bool = False,
        *,
        delete: bool = True,
    ) -> None:
        self._arguments = (suffix, prefix, dir, ignore_cleanup_errors)
        self._delete = delete
        self._folder: tempfile.TemporaryDirectory[Any] | None = None

    @property
    def name(self) -> Any:
        """The path. RuntimeError before the folder is made."""
        if self._folder is None:
            raise RuntimeError("the temporary folder has not been made yet: await it")
        return self._folder.name

    async def _create(self) -> Self:
        def create() -> None:
            folder: Any = tempfile.TemporaryDirectory(*self._arguments)
            if not self._delete:
                folder._finalizer.detach()  # as its own argument does from Python 3.12 on
            self._folder = folder

        backend = current_backend()
        making = backend.call(create)

        def remove(_: object) -> None:
            if self._folder is None:
                return
            try:
                backend.call(self._folder.cleanup).start()
            except RuntimeError:  # the loop has ended meanwhile: nothing of it can be delayed
                self._folder.cleanup()

        try:
            await making
        except BaseException:
            if self._delete:
                making.when_released(remove)
            raise
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._create().__await__()

    async def cleanup(self) -> None:
        """Remove the folder and its contents."""
        if self._folder is not None:
            await current_backend().call(self._folder.cleanup).start()

    async def close(self) -> None:
        """The same as :meth:`cleanup`."""
        await self.cleanup()

    async def __aenter__(self) -> Any:
        await self._create()
        return self.name

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._delete:
            await self.cleanup()


def _nothing() -> None:
    """Nothing to remove."""


async def _created(create: Callable[[], int], remove: Callable[[], None] = _nothing) -> int:
    """Return the descriptor of a file that is made on a worker thread.

    If the await is cancelled, the file is closed and removed once it is made.
    """
    backend = current_backend()
    making = backend.call(create)

    def drop(made: int | None) -> None:
        if made is not None:
            backend.abandon(made)
            remove()

    try:
        return await making
    except BaseException:
        making.when_released(drop)
        raise


async def _opened(
    fd: int,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> AsyncFile[Any]:
    try:
        file: AsyncFile[Any] = await open(fd, mode, buffering, encoding, errors, newline)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    return file
