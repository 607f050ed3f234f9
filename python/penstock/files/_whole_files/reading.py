"""Whole files read with one call."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING

from penstock._renamed import renamed
from penstock.files._backend import current_backend
from penstock.files._in_flight import results_of

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_AFTER_A_MISS = 64
"""So many files the engine reads before the page cache is tried without it: more at each time."""


async def read_file(path: StrOrBytesPath) -> bytes:
    """Open, read and close a file; return its contents.

    Cancellation: a file that was opened is closed.

    Raises:
        OSError: with the path.
    """
    return await current_backend().read_file(path)


@renamed(limit="queue_depth")
async def read_files(paths: Iterable[StrOrBytesPath], queue_depth: int = 64) -> list[bytes]:
    """Return the contents of several files, in the order of their paths.

    Up to ``queue_depth`` of them are read at a time. The first error, or a cancellation, abandons
    the others; nothing stays open.

    Raises:
        OSError: with the path of the file that could not be read.
        ValueError: if ``queue_depth`` is below 1.
    """
    if queue_depth < 1:
        raise ValueError(f"queue_depth {queue_depth} is below 1: no file could be read")
    backend = current_backend()
    source = iter(paths)
    found: list[bytes] = []
    most, tried_from = _AFTER_A_MISS, 0
    while True:
        outcome = backend.read_files_cached(source, found)
        if outcome is None:
            return await results_of(backend, map(backend.read_file, source), queue_depth)
        if outcome is False:
            return found
        if outcome is True:
            await backend.yield_now()
            continue
        # Where one file is not in the page cache, its neighbours seldom are.
        rest = chain(outcome, islice(source, most - 1))
        most = 4 * most if len(found) - tried_from < most else _AFTER_A_MISS
        found += await results_of(backend, map(backend.read_file, rest), queue_depth)
        tried_from = len(found)
