"""Shutting down the default executor within a time limit, on Python 3.12.

``loop.shutdown_default_executor`` has a ``timeout`` since Python 3.12, but the first releases of
that version check it only after the executor's threads have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from typing import Any


async def shut_down(loop: Any, timeout: float | None) -> None:
    """Wait ``timeout`` seconds (None: forever), then warn and continue, as Python 3.13 does."""
    loop._executor_shutdown_called = True
    executor = loop._default_executor
    if executor is None:
        return
    ended = loop.create_future()

    def finish(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def wait() -> None:
        error = None
        try:
            executor.shutdown(wait=True)
        except Exception as exc:
            error = exc
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(finish, error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        async with asyncio.timeout(timeout):
            await ended
    except TimeoutError:
        warnings.warn(
            f"The executor did not finishing joining its threads within {timeout} seconds.",
            RuntimeWarning,
            stacklevel=3,
        )
        executor.shutdown(wait=False)
    else:
        thread.join()
