"""AnyIO's ``open_file``: file objects, each call in a worker thread."""

from __future__ import annotations

import os
from collections.abc import Sequence

import anyio
from anyio import to_thread

from benchmarks.file_peers.peer import (
    AsyncPeer,
    Data,
    aligned_buffer,
    blocks_of,
    open_directly,
)


class Files(AsyncPeer):
    """Unbuffered for work in blocks, so that each call is one system call as with every peer."""

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        total = 0
        async with await anyio.open_file(path, "rb", buffering=0) as file:
            await file.seek(begin)
            for _ in range(begin, end, block):
                total += len(await file.read(block))
        return total

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        total = 0
        with aligned_buffer(block) as memory:
            async with await anyio.open_file(path, "rb", buffering=0, opener=open_directly) as file:
                await file.seek(begin)
                for _ in range(begin, end, block):
                    total += len(memory[: await file.readinto(memory)])
        return total

    async def read_whole(self, path: str) -> bytes:
        async with await anyio.open_file(path, "rb", buffering=0) as file:
            return await file.read()

    async def write_whole(self, path: str, data: Data) -> None:
        async with await anyio.open_file(path, "wb", buffering=0) as file:
            await file.write(data)

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        async with await anyio.open_file(path, "wb", buffering=0) as file:
            for _, piece in blocks_of(data, block):
                await file.write(piece)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        async with await anyio.open_file(path, "wb", buffering=0) as file:

            async def append(record: bytes) -> None:
                await file.write(record)
                await to_thread.run_sync(os.fdatasync, file.wrapped.fileno())

            await self.together(map(append, records))
