"""Several operations at a time, with their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.files._backend import FileBackend, Operation

__all__ = ["results_of"]

T = TypeVar("T")

_YIELD_CHECK_INTERVAL = 16  # operations


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
    """
    results: list[Any] = []
    begun: deque[Operation[T]] = deque()
    source = iter(operations)
    number = 0
    try:
        while True:
            operation = None
            if len(begun) < limit:
                if not number % _YIELD_CHECK_INTERVAL and backend.should_yield(0):
                    await backend.yield_now()
                operation = next(source, None)
            if operation is not None:
                begun.append(operation.start())
                number += 1
                continue
            if not begun:
                return results
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
