"""Several reads and writes of a file as one call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.files._backend import FileBackend, Operation

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["MOST_AT_ONCE", "read_into_many", "read_many"]

_AT_ONCE = 1 << 20  # bytes; the loop's thread copies no more without looking at the clock
_LARGEST_CACHED = 2 << 20
_DEPTH = 64

MOST_AT_ONCE = 1 << 16
"""Buffers of so many bytes together are read or written by one operation."""


async def read_many(
    backend: FileBackend, fd: int, size: int, offsets: Sequence[int], *, cached: bool
) -> list[bytes]:
    """Read at each offset: what the page cache has at once, the rest with 64 reads in flight."""
    found: list[bytes | None] = []
    if cached and 0 < size <= _LARGEST_CACHED:
        step = max(_AT_ONCE // size, 1)
        for begin in range(0, len(offsets), step):
            part = offsets if len(offsets) <= step else offsets[begin : begin + step]
            if backend.should_yield(size * len(part)):
                await backend.yield_now()
            found += backend.read_many_cached(fd, size, part)
    else:
        found = [None] * len(offsets)
    if None in found:
        await _read_missing(backend, fd, size, offsets, found)
    return found  # type: ignore[return-value]


async def _read_missing(
    backend: FileBackend, fd: int, size: int, offsets: Sequence[int], found: list[bytes | None]
) -> None:
    reading: deque[tuple[int, Operation[bytes]]] = deque()
    try:
        for number, offset in enumerate(offsets):
            if found[number] is not None:
                continue
            if len(reading) >= _DEPTH:
                index, operation = reading[0]
                found[index] = await operation
                reading.popleft()
            reading.append((number, backend.read(fd, size, offset).start()))
        while reading:
            index, operation = reading[0]
            found[index] = await operation
            reading.popleft()
    finally:
        for _, operation in reading:
            operation.close()


async def read_into_many(
    backend: FileBackend,
    fd: int,
    buffers: Sequence[WriteableBuffer],
    offset: int,
    alignment: int,
) -> int:
    """Fill the buffers one after the other, with all reads in flight; returns the count."""
    reading: deque[tuple[int, Operation[int]]] = deque()
    total = 0
    ended = False
    try:
        for buffer in buffers:
            length = memoryview(buffer).nbytes
            reading.append((length, backend.read_into(fd, buffer, offset, alignment).start()))
            offset += length
        while reading:
            length, operation = reading[0]
            count = await operation
            reading.popleft()
            if not ended:
                total += count
                ended = count < length
    finally:
        for _, operation in reading:
            operation.close()
    return total
