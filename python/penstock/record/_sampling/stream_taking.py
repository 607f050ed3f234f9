"""Reads a stream to its end, with the items that wait in it when it is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeVar

import anyio

__all__ = ["take_all"]

T = TypeVar("T")


async def take_all(
    context: AbstractAsyncContextManager[AsyncIterator[T]],
    take: Callable[[T], object],
    *,
    until: anyio.CancelScope,
    room: Callable[[], Awaitable[object]],
) -> bool:
    """Give ``take`` every item of a stream until it ends, or ``until`` is cancelled.

    Then the context is left, and the items that still wait in the stream are taken. A stream that
    cannot be read after that has none.

    Args:
        context: Gives the stream. Leaving it makes the stream end after what waits in it.
        take: Gets an item; does not wait.
        until: A scope of the caller's that was not entered yet.
        room: Returns when there is room for an item. Not asked for what waits at the end.

    Returns:
        True if the scope was cancelled, False if the stream has ended by itself.
    """
    async with context as stream:
        # Around the reading alone: the context is entered and left undisturbed.
        with until:
            while True:
                await room()
                try:
                    item = await anext(stream)
                except StopAsyncIteration:
                    break
                take(item)
    if not until.cancelled_caught:
        return False
    with suppress(anyio.ClosedResourceError):
        async for item in stream:
            take(item)
    return True
