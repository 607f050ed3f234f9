"""Several operations at a time, with their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.files._backend import FileBackend, Operation

T = TypeVar("T")

_STARTED_AT_ONCE = 16  # operations, between two checks of the clock


async def results_of(
    backend: FileBackend,
    operations: Iterable[Operation[T]],
    limit: int,
    *,
    missing_ok: bool = False,
) -> list[T]:
    """Start the operations in order, with ``limit`` of them in flight, and return their results.

    ``operations`` makes each one when it is to be started, so there may be any number of them. The
    first error, or a cancellation, abandons those in flight, and starts no more. With
    ``missing_ok`` the result is None where one has raised FileNotFoundError.

    More are started when half of them are done: the kernel gets them in few calls.
    """
    results: list[Any] = []
    begun: deque[Operation[T]] = deque()
    source = iter(operations)
    more = True
    try:
        while True:
            while more and len(begun) < limit:
                if backend.should_yield(0):
                    await backend.yield_now()
                most = min(limit - len(begun), _STARTED_AT_ONCE)
                more = backend.start_many(source, most, begun.append) == most
            if not begun:
                return results
            while len(begun) > (limit // 2 if more else 0):
                try:
                    results.append(await begun[0])
                except FileNotFoundError:
                    if not missing_ok:
                        raise
                    results.append(None)
                begun.popleft()
    finally:
        for each in begun:
            each.close()
