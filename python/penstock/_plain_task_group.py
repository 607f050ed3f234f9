"""A task group that raises single exceptions without a group, and a task beside a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def plain_task_group() -> AsyncIterator[TaskGroup]:
    """Open a task group that wraps an exception only if there are several.

    AnyIO's own group wraps every exception, including one of the block, so that a caller's
    ``except`` no longer matches it. A context manager that runs tasks beside its caller's block
    would change what the block raises.

    The block ends its tasks itself, even after an exception: the group waits for them.

    Raises:
        BaseExceptionGroup: of the block's exception and those of the tasks, if there are several.
    """
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                failure = error
    except BaseExceptionGroup as group:
        if failure is not None:
            raise BaseExceptionGroup(group.message, [failure, *group.exceptions]) from None
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # its traceback holds this frame


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
