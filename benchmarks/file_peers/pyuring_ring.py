"""pyuring's context, without a loop: operations in flight, completions one by one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyuring import UringCtx

from benchmarks.file_peers.peer import CREATE, Data, Peer, aligned_buffer, blocks_of


class Files(Peer):
    """Used as on its benchmark page, but with bytes as results and the same blocks as all peers."""

    takes_direct = True

    def __init__(self) -> None:
        self.ring = UringCtx(entries=256)
        self.held: dict[int, bytes] = {}

    async def read_regions(self, path: str, size: int, block: int, depth: int) -> int:
        with opened(path, os.O_RDONLY) as fd:
            return self._read_into_bytes(fd, size, block, depth)

    async def read_regions_directly(self, path: str, size: int, block: int, depth: int) -> int:
        return self._read_into_pages(path, size, block, depth)

    async def read_region_directly(self, path: str, begin: int, end: int, block: int) -> int:
        return self._read_into_pages(path, end - begin, block, self.depth)

    def _read_into_pages(self, path: str, size: int, block: int, depth: int) -> int:
        depth = min(depth, size // block)
        total = 0
        with aligned_buffer(block * depth) as memory, opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
            begin = address_of(memory)
            offsets = iter(range(0, size, block))
            flying = 0

            def submit(slot: int) -> int:
                for offset in offsets:
                    pointer = ctypes.c_void_p(begin + slot * block)
                    self.ring.read_async_ptr(fd, pointer, block, offset, slot)
                    return 1
                return 0

            for slot in range(depth):
                flying += submit(slot)
            while flying:
                slot, count = self.ring.wait_completion()
                total += len(memory[slot * block : slot * block + count])
                flying += submit(slot) - 1
        return total

    async def read_region(self, path: str, begin: int, end: int, block: int) -> int:
        with opened(path, os.O_RDONLY) as fd:
            return self._read_into_bytes(fd, end - begin, block, self.depth)

    def _read_into_bytes(self, fd: int, size: int, block: int, depth: int) -> int:
        # Its fastest way to bytes: one call for *depth* blocks, which it returns joined.
        whole = size - size % block
        offsets = list(range(0, whole, block))
        total = 0
        for begin in range(0, len(offsets), depth):
            joined = self.ring.read_offsets(fd, block, offsets[begin : begin + depth])
            total += sum(
                len(joined[start : start + block]) for start in range(0, len(joined), block)
            )
        if size > whole:
            total += len(self.ring.read(fd, size - whole, whole))
        return total

    async def read_whole(self, path: str) -> bytes:
        with opened(path, os.O_RDONLY) as fd:
            data: bytes = self.ring.read(fd, os.fstat(fd).st_size)
            return data

    async def read_many(self, paths: Sequence[str]) -> list[bytes]:
        found: list[bytes] = []
        for begin in range(0, len(paths), self.depth):
            group = paths[begin : begin + self.depth]
            fds = [os.open(path, os.O_RDONLY) for path in group]
            buffers = [bytearray(os.fstat(fd).st_size) for fd in fds]
            for slot, (fd, buffer) in enumerate(zip(fds, buffers, strict=True)):
                self.ring.read_async(fd, buffer, 0, slot)
            for _ in group:
                self.ring.wait_completion()
            found += map(bytes, buffers)
            for fd in fds:
                os.close(fd)
        return found

    async def write_whole(self, path: str, data: Data) -> None:
        with opened(path, CREATE | self.flags) as fd:
            self._submit_write(fd, data, 0, 0)
            self.ring.wait_completion()

    async def write_blocks(self, path: str, data: Data, block: int) -> None:
        pieces = iter(blocks_of(data, block))
        flying = 0
        with opened(path, CREATE | self.flags) as fd:

            def submit(slot: int) -> int:
                for offset, piece in pieces:
                    self._submit_write(fd, piece, offset, slot)
                    return 1
                return 0

            for slot in range(self.depth):
                flying += submit(slot)
            while flying:
                slot, _ = self.ring.wait_completion()
                flying += submit(slot) - 1

    def _submit_write(self, fd: int, data: Data, offset: int, slot: int) -> None:
        if self.direct:
            pointer = ctypes.c_void_p(address_of(data))
            self.ring.write_async_ptr(fd, pointer, len(data), offset, slot)
        else:
            # pyuring does not keep the data alive until they are written.
            self.held[slot] = bytes(data)
            self.ring.write_async(fd, self.held[slot], offset, slot)

    async def append(self, path: str, records: Sequence[bytes]) -> None:
        with opened(path, CREATE) as fd:
            offset = 0
            for record in records:
                offset += self.ring.write(fd, record, offset)
                os.fdatasync(fd)


def address_of(memory: object) -> int:
    """The address of a writable buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))  # type: ignore[arg-type]


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """A descriptor."""
    fd = os.open(path, flags, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)
