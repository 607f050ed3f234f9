"""``penstock.uring``: a ring without a loop, operations submitted in batches."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from benchmarks.file_peers.peer import CREATE, Data, Peer, blocks_of
from penstock.uring import BufferPool, UringCtx, UringError

T = TypeVar("T")


class Files(Peer):
    """One ring for everything."""

    takes_direct = True

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with UringCtx(entries=256) as self.ring:
            return super().run(main)

    async def read_regions(self, path: str, size: int, block: int, depth: int) -> int:
        return self._read_blocks(path, size, block, depth)

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        return self._read_blocks(path, end - begin, block, self.depth)

    async def read_regions_directly(self, path: str, size: int, block: int, depth: int) -> int:
        return self._read_directly(path, size, block, depth)

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        return self._read_directly(path, end - begin, block, self.depth)

    async def read_whole(self, path: str) -> bytes:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[bytes]:
        from penstock.uring import read_many

        return read_many(paths)

    async def write_whole(self, path: str, data: Data) -> None:
        await self.write_blocks(path, data, len(data))

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        fd = os.open(path, CREATE | self.flags, 0o644)
        flying = 0
        for offset, piece in blocks_of(data, block):
            self.ring.prep_write(fd, piece, offset)
            flying += 1
            if flying == self.depth:
                flying -= self._finish(1)
        self._finish(flying)
        os.close(fd)

    def _read_blocks(self, path: str, size: int, block: int, depth: int) -> int:
        fd = os.open(path, os.O_RDONLY)
        total = 0
        for begin in range(0, size, block * depth):
            offsets = range(begin, min(size, begin + block * depth), block)
            total += sum(map(len, self.ring.read_offsets(fd, block, offsets)))
        os.close(fd)
        return total

    def _read_directly(self, path: str, size: int, block: int, depth: int) -> int:
        depth = min(depth, size // block)
        total = 0
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        with BufferPool(depth, block) as pool:
            offsets = iter(range(0, size, block))
            for slot, offset in zip(range(depth), offsets, strict=False):
                self.ring.prep_read(fd, pool[slot], offset, slot)
            flying = depth
            while flying:
                for slot, count, _ in self.ring.wait_completions():
                    total += len(bytes(pool[slot]))
                    flying -= 1
                    for offset in offsets:
                        self.ring.prep_read(fd, pool[slot], offset, slot)
                        flying += 1
                        break
                    if count != block:
                        raise UringError(-min(count, 0), "a read past the page cache")
        os.close(fd)
        return total

    def _finish(self, count: int) -> int:
        """Wait for a number of writes; returns how many have ended."""
        if not count:
            return 0
        done = self.ring.wait_completions(count)
        for _, result, _ in done:
            if result < 0:
                raise UringError(-result, "a write")
        return len(done)
