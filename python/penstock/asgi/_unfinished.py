"""Requests that run, in words: for a log that says what does not end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from penstock.asgi._log import client_text, quoted_path

__all__ = ["names_of_requests"]

_MOST = 5


def names_of_requests(tasks: Iterable[asyncio.Task[None]]) -> list[str]:
    """Return the requests of these tasks, and their clients. Of many, the last one is a number."""
    running = [task for task in tasks if not task.done()]
    names = [_name_of(task) for task in running[:_MOST]]
    if len(running) > _MOST:
        names.append(f"{len(running) - _MOST} more")
    return names


def _name_of(task: asyncio.Task[None]) -> str:
    # An application's coroutine has its scope among its parameters. Whoever has compiled it away
    # is named by the function.
    coroutine: Any = task.get_coro()
    frame = getattr(coroutine, "cr_frame", None)
    if frame is None:  # the native half's own one, which awaits it
        coroutine = getattr(coroutine, "cr_await", None) or coroutine
        frame = getattr(coroutine, "cr_frame", None)
    for value in () if frame is None else list(frame.f_locals.values()):
        scope = getattr(value, "_scope", value)  # a WebSocket's session has it
        if isinstance(scope, dict) and scope.get("type") in ("http", "websocket"):
            method = scope.get("method", "WebSocket")
            return f"{method} {quoted_path(scope)} of {client_text(scope) or 'a Unix socket'}"
    return str(getattr(coroutine, "__qualname__", task.get_name()))
