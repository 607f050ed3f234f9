"""``penstock.files`` on Penstock's loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import penstock
from benchmarks.file_peers.peer import AsyncPeer, Data, blocks_of
from penstock import files

T = TypeVar("T")


class Files(AsyncPeer):
    """Uses the engine that Penstock or PENSTOCK_FILES selects."""

    takes_direct = True

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=penstock.new_event_loop) as runner:
            return runner.run(main)

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        total = 0
        async with files.open(path, "rb", buffering=0) as file:
            for offset in range(begin, end, block):
                total += len(await file.pread(block, offset))
        return total

    async def read_regions_directly(self, path: str, size: int, block: int, depth: int) -> int:
        # In the file's order, as plain calls and the rings read it: neighbours in flight together
        # reach the device as one request.
        offsets = iter(range(0, size, block))
        async with files.open(path, "rb", buffering=0, flags=os.O_DIRECT) as file:

            async def reader() -> int:
                return sum([len(await file.pread(block, offset)) for offset in offsets])

            return sum(await self.together(reader() for _ in range(depth)))

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        total = 0
        async with files.open(path, "rb", buffering=0, flags=os.O_DIRECT) as file:
            for offset in range(begin, end, block):
                total += len(await file.pread(block, offset))
        return total

    async def read_whole(self, path: str) -> bytes:
        return await files.read_file(path)

    async def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return await files.read_files(paths)

    async def write_whole(self, path: str, data: Data) -> None:
        if self.direct:
            await self.write_blocks(path, data, len(data))
        else:
            await files.write_file(path, data)

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        async with files.open(path, "wb", buffering=0, flags=self.flags) as file:
            for _, piece in blocks_of(data, block):
                await file.write(piece)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        async with files.AppendLog(path) as log:
            await self.together(map(log.append, records))
