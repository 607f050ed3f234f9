"""Instruments that are served by a loop in a thread, for tests of the blocking interface."""

from __future__ import annotations

import threading
from contextlib import AbstractAsyncContextManager, ExitStack

import anyio

__all__ = ["served"]


def served(stack: ExitStack, serving: AbstractAsyncContextManager[str]) -> str:
    """The address that ``serving`` yields. It is left when the stack is closed."""
    address: list[str] = []
    ready, done = threading.Event(), threading.Event()

    async def main() -> None:
        async with serving as where:
            address.append(where)
            ready.set()
            await anyio.to_thread.run_sync(done.wait)

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    stack.callback(thread.join)
    stack.callback(done.set)
    assert ready.wait(60)
    return address[0]
