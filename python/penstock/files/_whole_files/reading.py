"""Whole files read with one call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.files._backend import Operation, current_backend

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

__all__ = ["read_file", "read_files"]

_YIELD_CHECK_INTERVAL = 16  # files


async def read_file(path: StrOrBytesPath) -> bytes:
    """Open, read and close a file; return its contents.

    Cancellation: a file that was opened is closed.

    Raises:
        OSError: with the path.
    """
    return await current_backend().read_file(path)


async def read_files(paths: Iterable[StrOrBytesPath], limit: int = 64) -> list[bytes]:
    """Return the contents of several files, in the order of their paths.

    Up to ``limit`` of them are read at a time. The first error, or a cancellation, abandons the
    others; nothing stays open.

    Raises:
        OSError: with the path of the file that could not be read.
        ValueError: if ``limit`` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit {limit} is below 1: no file could be read")
    backend = current_backend()
    contents: list[bytes] = []
    reading: deque[Operation[bytes]] = deque()
    try:
        for number, path in enumerate(paths):
            if len(reading) >= limit:
                contents.append(await reading[0])
                reading.popleft()
            if not number % _YIELD_CHECK_INTERVAL and backend.should_yield(0):
                await backend.yield_now()
            reading.append(backend.read_file(path).start())
        while reading:
            contents.append(await reading[0])
            reading.popleft()
    finally:
        for begun in reading:
            begun.close()
    return contents
