"""uringio: files of its own event loop, one io_uring operation per call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import uringio

from benchmarks.file_peers.peer import CREATE, AsyncPeer, Data, blocks_of

T = TypeVar("T")


class Files(AsyncPeer):
    """Runs on uringio's own loop; it has no files without it."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=uringio.UringioLoop) as runner:
            return runner.run(main)

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        file = await uringio.open_file(path=path, flags=os.O_RDONLY, mode=0)
        total = 0
        for offset in range(begin, end, block):
            total += len(await file.read(offset, block))
        await file.close()
        return total

    async def read_whole(self, path: str) -> bytes:
        file = await uringio.open_file(path=path, flags=os.O_RDONLY, mode=0)
        data: bytes = await file.read(0, os.fstat(file.fd).st_size)
        await file.close()
        return data

    async def write_whole(self, path: str, data: Data) -> None:
        file = await uringio.open_file(path=path, flags=CREATE, mode=0o644)
        await file.write(data, 0)
        await file.close()

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        file = await uringio.open_file(path=path, flags=CREATE, mode=0o644)
        for offset, piece in blocks_of(data, block):
            await file.write(piece, offset)
        await file.close()

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        file = await uringio.open_file(path=path, flags=CREATE, mode=0o644)

        async def append(offset: int, record: bytes) -> None:
            await file.write(record, offset)
            await file.fdatasync()

        size = len(records[0])
        await self.together(append(size * i, record) for i, record in enumerate(records))
        await file.close()
