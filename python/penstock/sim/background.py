"""A task beside the body of a context manager, without changing what the body raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio

__all__ = ["running"]


@asynccontextmanager
async def running(serve: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run `serve()` while the context lasts, cancel it at the end.

    A plain task group would wrap an exception of the body into an exception group, so that a
    caller's `except` no longer finds it. Here the body's exception leaves as it is; only what
    `serve` itself raises comes as a group.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
