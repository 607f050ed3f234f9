"""``map``: a file in memory."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from anyio.abc import AsyncResource

from penstock._core import MappedFileCore
from penstock.files._backend import current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._file_objects.opening import Opening

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_PIECE = 16 << 20  # bytes that a worker reads in one go


class MappedFile(MappedFileCore, AsyncResource):
    """A file in memory, read only; ``penstock.files.map`` makes one.

    It is a buffer: ``memoryview(mapped)``, ``re.search(pattern, mapped)``, ``numpy.frombuffer``.
    ``mapped[begin:end]`` is a copy of a part, as bytes, and costs no system call. It may be used by
    any thread.

    A page that the kernel has dropped is read again when it is used, which blocks the thread;
    ``populate`` reads it on a worker.

    **Truncation**: a file that becomes shorter while it is mapped does not end the process. What is
    missing reads as zeros from then on, up to the end. ``mapped[...]`` raises OSError instead, and
    ``lost`` is true: check it after you have used a buffer. A device error has the same effect.
    """

    __slots__ = ()

    async def populate(self, offset: int = 0, size: int | None = None) -> None:
        """Bring a range into memory, on a worker thread; without ``size`` all that follows.

        Cancellation: ends after the 16 MiB that a thread is reading; at once if none is.

        Raises:
            OSError: with EIO, if the file has become shorter, or cannot be read.
            ValueError: if it is closed, or for a negative number.
        """
        if offset < 0 or (size is not None and size < 0):
            raise ValueError(f"a range of {size} bytes from {offset} has a negative number")
        end = len(self) if size is None else min(offset + size, len(self))
        backend = current_backend()

        async def read_in(stop: Stop) -> None:
            for begin in range(offset, end, _PIECE):
                work = partial(self._populate, begin, min(_PIECE, end - begin))
                await stop.step(backend.call(work))

        if offset < end:
            await run_whole(read_in)  # the file cannot be closed while a thread reads it
        self._populate(end, 0)  # raises for a file that is closed

    async def close(self) -> None:
        """Unmap the file. Does nothing the second time.

        Raises:
            BufferError: while a memoryview of it exists, or ``populate`` runs.
        """
        self._close()

    aclose = close

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} bytes"
        return f"<MappedFile name={self.name!r} {state}>"


def map(path: StrOrBytesPath, *, populate: bool = True) -> Opening[MappedFile]:
    """Map a file into memory; ``await`` the result, or use it with ``async with``.

    For data that are read often, in small parts: a part costs half of a cached read or less. The
    first map of a process installs a handler for SIGBUS, which knows only the maps, and leaves
    other faults to the handler that was there.

    Args:
        path: a regular file.
        populate: read the whole file into memory first, on a worker thread.

    Cancellation: a cancelled await leaves nothing mapped when the 16 MiB in work are read.

    Raises:
        OSError: when awaited, with the file's name; ENOMEM for more than 4096 maps at a time.
        ValueError: when awaited, for what is not a regular file.
    """

    async def open_now() -> MappedFile:
        backend = current_backend()
        fd = await backend.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode, size, *_ = backend.describe(fd)
            if not stat.S_ISREG(mode):
                raise ValueError(f"{os.fspath(path)!r} is not a regular file; it cannot be mapped")
            mapped = MappedFile(fd, size, path)
        finally:
            backend.abandon(fd)
        if populate:
            await mapped.populate()
        return mapped

    return Opening(open_now)
