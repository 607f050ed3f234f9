"""Calls that change a device, made in a worker thread and never abandoned.

A call into a driver cannot be interrupted, so a caller that is cancelled meanwhile waits for its
end. Otherwise a port would follow settings that are not in force, and a break would begin that
nobody ends. AnyIO does this by a shield against its own cancellation. asyncio's (``Task.cancel``,
``asyncio.timeout``) ignores shields and would leave the thread running.
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

from penstock._cancellation import wait_despite_cancellation

__all__ = ["run_shielded", "run_to_end"]

T = TypeVar("T")


async def run_to_end(
    function: Callable[..., T], *args: object, undo: Callable[[T], object] | None = None
) -> T:
    """Call ``function`` in a worker thread; if cancelled, wait for its end if it has begun.

    After a cancellation ``undo`` gets its result, in a worker thread as well.
    """
    call: Future[T] = Future()
    try:
        await anyio.to_thread.run_sync(_perform, call, function, args)
    except asyncio.CancelledError as cancelled:
        if call.cancel():
            raise
        await _wait_until_ended(call)
        failure = call.exception()
        if failure is None and undo is not None:
            try:
                await run_shielded(undo, call.result())
            except OSError as exc:
                failure = exc
        raise cancelled from failure
    return _result_of(call)


async def run_shielded(function: Callable[..., T], *args: object) -> T:
    """Call ``function`` in a worker thread, also if cancelled before or while it runs.

    The thread is none of the shared ones, which may all be blocked in drivers.
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
            await _wait_until_ended(call)
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
        del call  # the error's traceback refers to this frame: avoids a reference cycle


async def _wait_until_ended(call: Future[Any]) -> None:
    # Only for asyncio's cancellation: trio's does not interrupt a call that has begun.
    loop = asyncio.get_running_loop()
    ended = anyio.Event()
    call.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    await wait_despite_cancellation(ended)
