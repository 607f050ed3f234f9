"""Calls that change a device, in a worker thread, seen through to their end.

A driver that has begun cannot be called back, so who is cancelled meanwhile waits for it: else a
port would follow settings that are no longer in force, and a break would begin that nobody ends.
AnyIO's threads do so for AnyIO's cancellation, by a shield. asyncio's own (``Task.cancel``,
``asyncio.timeout``) knows no shield and would leave the thread at work behind its caller's back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter

__all__ = ["run_to_end", "run_undeterred"]

T = TypeVar("T")


async def run_to_end(
    function: Callable[..., T], *args: object, undo: Callable[[T], object] | None = None
) -> T:
    """Call *function* in a worker thread; cancelled, wait until it has ended, if it has begun.

    *undo* then gets its result, in a worker thread as well.
    """
    call: Future[T] = Future()
    try:
        await anyio.to_thread.run_sync(_perform, call, function, args)
    except asyncio.CancelledError as cancelled:
        if call.cancel():
            raise
        await _until_ended(call)
        failure = call.exception()
        if failure is None and undo is not None:
            try:
                await run_undeterred(undo, call.result())
            except OSError as exc:
                failure = exc
        raise cancelled from failure
    return _result_of(call)


async def run_undeterred(function: Callable[..., T], *args: object) -> T:
    """Call *function* in a worker thread, also when cancelled before or while it runs.

    The thread is none of those that all share: forty that are stuck must not hold this up.
    """
    call: Future[T] = Future()
    with anyio.CancelScope(shield=True):
        try:
            await anyio.to_thread.run_sync(
                _perform, call, function, args, limiter=CapacityLimiter(1)
            )
        except asyncio.CancelledError as cancelled:
            if call.cancel():
                call = Future()
                threading.Thread(target=_perform, args=(call, function, args)).start()
            await _until_ended(call)
            raise cancelled from call.exception()
    return _result_of(call)


def _perform(call: Future[T], function: Callable[..., T], args: tuple[Any, ...]) -> None:
    if not call.set_running_or_notify_cancel():
        return
    try:
        call.set_result(function(*args))
    except BaseException as exc:
        call.set_exception(exc)


def _result_of(call: Future[T]) -> T:
    try:
        return call.result()
    finally:
        del call  # its error's traceback leads to this frame: no cycle for the collector


async def _until_ended(call: Future[Any]) -> None:
    # Only asyncio's cancellation comes here: trio's does not disturb a call that has begun.
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    with anyio.CancelScope(shield=True):
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue  # the caller raises the first one
