"""An event loop in a thread, for what one sink does beside the recorder's own loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from penstock.loop import new_event_loop

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that wait for them. Any thread may call it.

    The recorder's loop may be trio's, may be blocked by a program's own code, and must not wait for
    TLS or for a server; clients of brokers need asyncio. So each sink has a loop of its own.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Event | None = None

    def start(self) -> None:
        """Begin the thread; returns when its loop runs. OSError: there can be no loop."""
        ready = threading.Event()
        failures: list[BaseException] = []
        # Not waited for at the end of the process: a sink that was never closed must not hold it.
        self._thread = threading.Thread(
            target=self._run, args=(ready, failures), name=self._name, daemon=True
        )
        self._thread.start()
        ready.wait()
        for failure in failures:
            self._thread.join()
            raise failure

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``function(*arguments)`` on the loop, and return its result or raise its error."""
        assert self._loop is not None
        # In a context of its own: in that of a thread of trio's, AnyIO takes this loop for trio.
        begin = asyncio.run_coroutine_threadsafe
        return Context().run(begin, function(*arguments), self._loop).result()

    def stop(self) -> None:
        """Cancel what runs on the loop, and end the thread."""
        if self._loop is not None and self._ended is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()
            self._loop = None

    def _run(self, ready: threading.Event, failures: list[BaseException]) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._ended = asyncio.Event()
            ready.set()
            await self._ended.wait()

        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:
            if ready.is_set():
                raise
            # A process has no more descriptors, say. ``start`` raises it.
            failures.append(error)
            ready.set()
