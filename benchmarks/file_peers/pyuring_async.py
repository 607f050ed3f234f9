"""pyuring on an event loop: ``UringAsync`` awaits completions, a dispatcher distributes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from pyuring import UringAsync, UringCtx

from benchmarks.file_peers.peer import CREATE, AsyncPeer, Data, blocks_of

T = TypeVar("T")


class Files(AsyncPeer):
    """``UringAsync.wait_completion`` returns the first of any, so one task dispatches them."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        async def with_ring() -> T:
            self.ring = UringCtx(entries=256)
            self.completions = UringAsync(self.ring)
            self.waiting: dict[int, asyncio.Future[int]] = {}
            self.next_tag = 0
            self.dispatcher: asyncio.Task[None] | None = None
            try:
                return await main
            finally:
                self.completions.close()
                self.ring.close()

        return super().run(with_ring())

    async def _result_of(self, tag: int) -> int:
        future = asyncio.get_running_loop().create_future()
        self.waiting[tag] = future
        if self.dispatcher is None or self.dispatcher.done():
            self.dispatcher = asyncio.create_task(self._dispatch())
        result: int = await future
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    async def _dispatch(self) -> None:
        while self.waiting:
            tag, result = await self.completions.wait_completion()
            self.waiting.pop(tag).set_result(result)

    def _tag(self) -> int:
        self.next_tag += 1
        return self.next_tag

    async def _read(self, fd: int, size: int, offset: int) -> bytes:
        buffer, tag = bytearray(size), self._tag()
        self.ring.read_async(fd, buffer, offset, tag)
        return bytes(memoryview(buffer)[: await self._result_of(tag)])

    async def _write(self, fd: int, data: bytes, offset: int) -> None:
        tag = self._tag()
        self.ring.write_async(fd, data, offset, tag)
        await self._result_of(tag)

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        fd = os.open(path, os.O_RDONLY)
        total = 0
        for offset in range(begin, end, block):
            total += len(await self._read(fd, block, offset))
        os.close(fd)
        return total

    async def read_whole(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY)
        data = await self._read(fd, os.fstat(fd).st_size, 0)
        os.close(fd)
        return data

    async def write_whole(self, path: str, data: Data) -> None:
        fd = os.open(path, CREATE, 0o644)
        await self._write(fd, bytes(data), 0)
        os.close(fd)

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        fd = os.open(path, CREATE, 0o644)
        for offset, piece in blocks_of(data, block):
            await self._write(fd, bytes(piece), offset)
        os.close(fd)
