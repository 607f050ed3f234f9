"""A task beside the body of a context manager, without changing what the body raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from penstock._plain_task_group import plain_task_group

__all__ = ["running"]


@asynccontextmanager
async def running(serve: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run ``serve()`` while the context lasts; cancel it at the end.

    An exception of the body is raised without a group, so that a caller's ``except`` matches it.
    """
    async with plain_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
