"""Whole files at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.files.backend import Operation, current_backend

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

__all__ = ["read_file", "read_files"]

_BETWEEN_LOOKS = 16  # files


async def read_file(path: StrOrBytesPath) -> bytes:
    """Return a file's contents: opened, read and closed in one go.

    Raises OSError's kin with the path. Cancelled, it closes what it opened.
    """
    return await current_backend().read_file(path)


async def read_files(paths: Iterable[StrOrBytesPath], limit: int = 64) -> list[bytes]:
    """Return the contents of several files, in the order of their paths.

    Up to ``limit`` of them are read at a time. The first error ends it, and so does a cancellation:
    what was begun is given up, and nothing stays open. Raises ValueError for a limit below 1.
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
            if not number % _BETWEEN_LOOKS and backend.turn_is_over(0):
                await backend.give_way()
            reading.append(backend.read_file(path).start())
        while reading:
            contents.append(await reading[0])
            reading.popleft()
    finally:
        for begun in reading:
            begun.close()
    return contents
