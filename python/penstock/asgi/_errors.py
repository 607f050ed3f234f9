"""Exceptions of the ASGI server."""

from __future__ import annotations

import asyncio


class ClientDisconnected(OSError):
    """`send` raises this after the client has disconnected.

    An application need not handle it: the server logs it at level DEBUG only.
    """


class LifespanFailed(RuntimeError):
    """The application has refused to start, or has failed in its lifespan."""


def is_disconnect(exception: BaseException) -> bool:
    """Return whether an application's exception means only that the client has disconnected.

    That holds for `ClientDisconnected`, for an exception group (a task group raises one) of nothing
    but such exceptions and CancelledError, and for Starlette's `ClientDisconnect` that one caused.
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
