"""pyuring used as on its own benchmark page, to reproduce the figure of that page.

A file of any size is one operation into pages of a ``BufferPool``. They never become Python bytes,
which is less work than the others do, so the figure is shown but not compared.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

from pyuring import BufferPool, UringCtx

from benchmarks.file_peers.peer import CREATE, Data, Peer
from benchmarks.measured_program import Unavailable


class Files(Peer):
    """Whole files only; the data are copied into the pool's pages within the timed part."""

    def __init__(self) -> None:
        self.ring = UringCtx(entries=256)
        self.pool: BufferPool | None = None

    def get_ready(self, count: int, size: int) -> None:
        self.pool = BufferPool.create(initial_count=count, initial_size=size)
        for slot in range(count):
            self.pool.set_size(slot, size)
            # Touch the pages before the clock starts.
            ctypes.memset(self.pool.get_ptr(slot)[0], 0, size)

    async def read_whole(self, path: str) -> bytes:
        with open(path, "rb") as file:  # for the check before the clock starts
            return file.read()

    async def write_all(self, paths: Sequence[str], data: Data, block: int) -> None:
        self._check_whole(block)
        assert self.pool is not None
        fds = [os.open(path, CREATE, 0o644) for path in paths]
        source = bytes(data)
        for slot, fd in enumerate(fds):
            pointer, size = self.pool.get_ptr(slot)
            ctypes.memmove(pointer, source, size)
            self.ring.write_async_ptr(fd, pointer, size, 0, slot)
        self._finish(fds)

    async def read_all(self, paths: Sequence[str], size: int, block: int) -> int:
        self._check_whole(block)
        assert self.pool is not None
        fds = [os.open(path, os.O_RDONLY) for path in paths]
        for slot, fd in enumerate(fds):
            pointer, length = self.pool.get_ptr(slot)
            self.ring.read_async_ptr(fd, pointer, length, 0, slot)
        return self._finish(fds)

    def _finish(self, fds: Sequence[int]) -> int:
        total: int = sum(self.ring.wait_completion()[1] for _ in fds)
        for fd in fds:
            os.close(fd)
        return total

    @staticmethod
    def _check_whole(block: int) -> None:
        if block:
            raise Unavailable("its page works with whole files only")
