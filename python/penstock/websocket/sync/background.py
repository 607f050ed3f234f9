"""The event loop that serves blocking calls, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.loop import new_event_loop

__all__ = ["call", "loop_of_this_process"]

T = TypeVar("T")

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None


def loop_of_this_process() -> asyncio.AbstractEventLoop:
    """Return the loop, which begins at the first call and ends with the process.

    The child of a fork has another one: threads are not forked.
    """
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            loop = new_event_loop()
            threading.Thread(
                target=loop.run_forever, name="penstock.websocket", daemon=True
            ).start()
            _running = os.getpid(), loop
        return _running[1]


# A fork while another thread holds the lock would leave it locked in the child.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


async def _await(function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]) -> T:
    return await function(*arguments)


def call(function: Callable[..., Awaitable[T]], *arguments: Any, timeout: float | None = None) -> T:
    """Call a coroutine function on the loop and wait for its result.

    An exception in this thread, for example KeyboardInterrupt, cancels it.

    Args:
        function: Called on the loop's thread.
        *arguments: Its arguments.
        timeout: Seconds for the coroutine, after which it is cancelled; None has no limit.

    Raises:
        RuntimeError: If it is called on the loop's own thread, which it would block.
        TimeoutError: If it takes longer.
    """
    loop = loop_of_this_process()
    if asyncio._get_running_loop() is loop:
        raise RuntimeError("a blocking call in the loop's own thread would never return")

    async def limited() -> T:
        async with asyncio.timeout(timeout):
            return await function(*arguments)

    made = _await(function, arguments) if timeout is None else limited()
    future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(made, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
