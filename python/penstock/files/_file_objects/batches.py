"""Several reads and writes of a file as one call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from penstock.files._backend import FileBackend
from penstock.files._in_flight import results_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_AT_ONCE = 1 << 20  # bytes; the loop's thread copies no more without looking at the clock
_LARGEST_CACHED = 2 << 20
_DEPTH = 64

MOST_AT_ONCE = 1 << 16
"""Buffers of so many bytes together are read or written by one operation."""


async def read_many(
    backend: FileBackend,
    fd: int,
    size: int,
    offsets: Sequence[int],
    alignment: int,
    *,
    cached: bool,
) -> list[bytes]:
    """Read at each offset: what the page cache has at once, the rest with 64 reads in flight."""
    if cached and type(size) is int and 0 < size * len(offsets) <= _AT_ONCE:
        if backend.should_yield(size * len(offsets)):
            await backend.yield_now()
        first = backend.read_many_cached(fd, size, offsets)
        if isinstance(first, list):
            return first
        return await _read_missing(backend, fd, size, offsets, list(first), alignment)
    found: list[bytes | None] = []
    if cached and 0 < size <= _LARGEST_CACHED:
        step = max(_AT_ONCE // size, 1)
        for begin in range(0, len(offsets), step):
            part = offsets if len(offsets) <= step else offsets[begin : begin + step]
            if backend.should_yield(size * len(part)):
                await backend.yield_now()
            found += backend.read_many_cached(fd, size, part)
    else:
        if offsets and min(offsets) < 0:
            raise ValueError(f"offset {min(offsets)} is negative")
        found = [None] * len(offsets)
    return await _read_missing(backend, fd, size, offsets, found, alignment)


async def _read_missing(
    backend: FileBackend,
    fd: int,
    size: int,
    offsets: Sequence[int],
    found: list[bytes | None],
    alignment: int,
) -> list[bytes]:
    missing = [number for number, data in enumerate(found) if data is None]
    reads = (backend.read(fd, size, offsets[number], alignment) for number in missing)
    for number, data in zip(missing, await results_of(backend, reads, _DEPTH), strict=True):
        found[number] = data
    return found  # type: ignore[return-value]


async def read_into_many(
    backend: FileBackend,
    fd: int,
    buffers: Sequence[WriteableBuffer],
    offset: int,
    alignment: int,
) -> int:
    """Fill the buffers one after the other, with all reads in flight; returns the count."""
    lengths = [memoryview(buffer).nbytes for buffer in buffers]
    places = accumulate(lengths, initial=offset)
    reads = (
        backend.read_into(fd, buffer, place, alignment)
        for buffer, place in zip(buffers, places, strict=False)
    )
    total = 0
    counts = await results_of(backend, reads, max(len(buffers), 1))
    for length, count in zip(lengths, counts, strict=True):
        total += count
        if count < length:
            break
    return total
