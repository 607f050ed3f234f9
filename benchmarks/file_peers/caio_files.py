"""caio on an event loop, with its default context (io_uring where the kernel allows it).

It neither opens nor closes files, so plain ``os`` does that.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from caio import AsyncioContext

from benchmarks.file_peers.peer import CREATE, AsyncPeer, Data, blocks_of

T = TypeVar("T")


class Files(AsyncPeer):
    """One context for everything."""

    context: AsyncioContext

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        async def with_context() -> T:
            async with AsyncioContext() as self.context:
                return await main

        return super().run(with_context())

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        fd = os.open(path, os.O_RDONLY)
        total = 0
        for offset in range(begin, end, block):
            total += len(await self.context.read(block, fd, offset))
        os.close(fd)
        return total

    async def read_whole(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY)
        data: bytes = await self.context.read(os.fstat(fd).st_size, fd, 0)
        os.close(fd)
        return data

    async def write_whole(self, path: str, data: Data) -> None:
        fd = os.open(path, CREATE, 0o644)
        await self.context.write(bytes(data), fd, 0)
        os.close(fd)

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        fd = os.open(path, CREATE, 0o644)
        for offset, piece in blocks_of(data, block):
            await self.context.write(bytes(piece), fd, offset)  # it takes no other type
        os.close(fd)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        fd = os.open(path, CREATE, 0o644)

        async def append(offset: int, record: bytes) -> None:
            await self.context.write(record, fd, offset)
            await self.context.fdsync(fd)

        size = len(records[0])
        await self.together(append(size * i, record) for i, record in enumerate(records))
        os.close(fd)
