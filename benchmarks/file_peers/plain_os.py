"""Plain system calls: ``os.open``, ``os.pread``, ``os.write``."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.file_peers.peer import CREATE, Data, Peer, aligned_buffer, blocks_of


class Files(Peer):
    """One call after the other, each of which blocks the loop if there is one."""

    takes_direct = True

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        fd = os.open(path, os.O_RDONLY)
        total = 0
        for offset in range(begin, end, block):
            total += len(os.pread(fd, block, offset))
        os.close(fd)
        return total

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        total = 0
        with aligned_buffer(block) as buffer:
            for offset in range(begin, end, block):
                os.preadv(fd, [buffer], offset)
                total += len(buffer[:])
        os.close(fd)
        return total

    async def read_whole(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY)
        data = os.read(fd, os.fstat(fd).st_size)
        os.close(fd)
        return data

    async def write_whole(self, path: str, data: Data) -> None:
        fd = os.open(path, CREATE | self.flags, 0o644)
        os.write(fd, data)
        os.close(fd)

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        fd = os.open(path, CREATE | self.flags, 0o644)
        for _, piece in blocks_of(data, block):
            os.write(fd, piece)
        os.close(fd)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        fd = os.open(path, CREATE | os.O_APPEND, 0o644)
        for record in records:
            os.write(fd, record)
            os.fdatasync(fd)
        os.close(fd)
