"""Requests that run, in words: for a log that says what does not end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from penstock.asgi._log import client_text, quoted_path
from penstock.asgi._websocket import WebSocketSession

_MOST = 5
_KEYS = {"path", "query_string", "headers"}


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
    named = None if frame is None else _name_in(frame)
    return named or str(getattr(coroutine, "__qualname__", task.get_name()))


def name_of_blocking_request(thread: int) -> str | None:
    """Return the request that another thread is in, which may not be a task of the server yet."""
    frame = sys._current_frames().get(thread)
    name = None
    while frame is not None:
        # The outermost one: an application may call another one with a scope of its own.
        name = _name_in(frame) or name
        frame = frame.f_back
    return name


def _name_in(frame: FrameType) -> str | None:
    for value in list(frame.f_locals.values()):
        scope = value._scope if isinstance(value, WebSocketSession) else value
        # OpenAPI has dictionaries of this type too.
        if (
            isinstance(scope, dict)
            and scope.get("type") in ("http", "websocket")
            and scope.keys() >= _KEYS
        ):
            method = scope.get("method", "WebSocket")
            return f"{method} {quoted_path(scope)} of {client_text(scope) or 'a Unix socket'}"
    return None
