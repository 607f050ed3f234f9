"""The operations of a peer. An operation that it does not offer raises Unavailable."""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from benchmarks.measured_program import Unavailable, loop_factory

T = TypeVar("T")
Data = bytes | memoryview  # the latter in aligned memory

CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Peer:
    """Blocking calls, one after the other; nothing is awaited.

    Reads return the data as ``bytes`` objects, as a program needs them, or the total length if only
    the reading is measured. A region is a part of a file that is read in blocks.

    Attributes:
        takes_direct: whether it can bypass the page cache (``O_DIRECT``).
        direct: whether it does so for the larger files; their data are then in aligned memory.
        depth: how many operations a ring keeps in flight.
    """

    takes_direct = False
    direct = False
    depth = 32

    @property
    def flags(self) -> int:
        """Additional flags to open a larger file with."""
        return os.O_DIRECT if self.direct else 0

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the peer's loop."""
        try:
            main.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise RuntimeError("a peer without a loop has waited")

    def get_ready(self, count: int, size: int) -> None:
        """Set up for ``count`` larger files of ``size`` bytes; not timed."""

    async def together(self, calls: Iterable[Awaitable[T]]) -> list[T]:
        """Run all of them, concurrently if the peer can."""
        return [await call for call in calls]

    async def read_regions(self, path: str, size: int, block: int, depth: int) -> int:
        """Read a file of ``size`` bytes in blocks, ``depth`` of them in flight."""
        region = size // depth
        counts = await self.together(
            self.read_region(path, begin, begin + region, block) for begin in range(0, size, region)
        )
        return sum(counts)

    async def read_regions_directly(self, path: str, size: int, block: int, depth: int) -> int:
        """The same with ``O_DIRECT``, in file order if the peer can."""
        region = size // depth
        counts = await self.together(
            self.read_region_directly(path, begin, begin + region, block)
            for begin in range(0, size, region)
        )
        return sum(counts)

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        """One region, block by block."""
        raise Unavailable("it has no reads")

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        """The same with ``O_DIRECT``."""
        raise Unavailable("it takes no aligned buffer, which O_DIRECT needs")

    async def read_whole(self, path: str) -> bytes:
        """Open, read, close."""
        raise Unavailable("it has no reads")

    async def read_length(self, path: str) -> int:
        """Read a whole file and keep only its length."""
        return len(await self.read_whole(path))

    async def write_whole(self, path: str, data: Data) -> None:
        """Create, write, close."""
        raise Unavailable("it has no writes")

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        """Create, write in blocks, close."""
        raise Unavailable("it has no writes")

    async def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """Many small files."""
        return await self.together(map(self.read_whole, paths))

    async def read_all(self, paths: Sequence[str], size: int, block: int) -> int:
        """Several larger files, in blocks or (0) whole."""
        if self.direct:
            return sum(
                await self.together(
                    self.read_region_directly(path, 0, size, block or size) for path in paths
                )
            )
        if not block:
            return sum(await self.together(map(self.read_length, paths)))
        return sum(await self.together(self.read_region(path, 0, size, block) for path in paths))

    async def write_all(self, paths: Sequence[str], data: Data, block: int) -> None:
        """Several larger files, in blocks or (0) whole."""
        if not block:
            await self.together(self.write_whole(path, data) for path in paths)
        else:
            await self.together(self.write_blocks(path, data, block) for path in paths)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        """Append to a log. Each record is confirmed separately, and all are durable at the end."""
        raise Unavailable("it has no log")


class AsyncPeer(Peer):
    """A peer on an event loop, where calls run concurrently.

    Attributes:
        loop: the loop's name; asyncio's own by default.
    """

    loop = "asyncio"

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=loop_factory(self.loop)) as runner:
            return runner.run(main)

    async def together(self, calls: Iterable[Awaitable[T]]) -> list[T]:
        return await asyncio.gather(*calls)


def blocks_of(data: Data, block: int) -> list[tuple[int, memoryview]]:
    """Offset and bytes of each block."""
    view = memoryview(data)
    return [(offset, view[offset : offset + block]) for offset in range(0, len(data), block)]


def open_directly(path: str, flags: int) -> int:
    """An opener for files that bypass the page cache."""
    return os.open(path, flags | os.O_DIRECT)


def aligned_buffer(size: int) -> mmap.mmap:
    """Page-aligned memory."""
    return mmap.mmap(-1, size)
