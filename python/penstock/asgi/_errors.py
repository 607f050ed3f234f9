"""Exceptions of the ASGI server."""

from __future__ import annotations

import asyncio

__all__ = ["ClientDisconnected", "LifespanFailed", "is_cancelled", "is_disconnect"]


class ClientDisconnected(OSError):
    """What `send` raises after the client has gone. An application need not handle it."""


class LifespanFailed(RuntimeError):
    """The application has refused to start, or has failed in its lifespan."""


def is_disconnect(exception: BaseException) -> bool:
    """Return whether an application's exception only says that the client has gone.

    Task groups wrap it in groups, and Starlette replaces it by its own.
    """
    if isinstance(exception, BaseExceptionGroup):
        return all(
            isinstance(each, asyncio.CancelledError) or is_disconnect(each)
            for each in exception.exceptions
        )
    if isinstance(exception, ClientDisconnected):
        return True
    replaced = type(exception).__name__ == "ClientDisconnect"
    cause = exception.__cause__ or exception.__context__
    return replaced and cause is not None and is_disconnect(cause)


def is_cancelled() -> bool:
    """Return whether somebody has cancelled the running task.

    Else its CancelledError is one that the application has raised, or got from something else that
    was cancelled.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
