"""Work that a cancellation may stop between two steps, and never tear apart in the middle of one.

A cancelled await of a single file operation returns at once, while the kernel may still be at work
on it. Several steps that belong together (write, sync, rename, tidy up) need more: nobody may close
the file or remove it before the step in flight has ended. So such a sequence runs in a task of its
own that nobody cancels. Shielding alone would not do: AnyIO's shield keeps out the scopes of AnyIO
and trio, but not asyncio's ``Task.cancel``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from anyio import CancelScope, Event

__all__ = ["Stop", "Stopped", "run_whole", "start_detached"]

T = TypeVar("T")

# asyncio itself keeps only weak references to its tasks.
_tasks: set[asyncio.Task[None]] = set()


class Stopped(Exception):
    """The caller of a sequence was cancelled; the sequence is to undo what it did, and end."""


class Stop:
    """Tells a sequence whether its caller has been cancelled."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        """Raise :class:`Stopped` once the caller has been cancelled; called between two steps."""
        if self.requested:
            raise Stopped


class _Outcome(Generic[T]):
    __slots__ = ("error", "value")

    value: T

    def __init__(self) -> None:
        self.error: BaseException | None = None


def start_detached(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start ``work`` on the running loop, outside every cancel scope.

    ``work`` must not raise. It is cancelled only when the loop's run comes to its end.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        trio.lowlevel.spawn_system_task(work)
        return
    task = asyncio.get_running_loop().create_task(work())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def run_whole(sequence: Callable[[Stop], Awaitable[T]]) -> T:
    """Run ``sequence(stop)`` to its end, and hand over what it returned or raised.

    Cancellation: ``stop.requested`` becomes true, and the cancellation is raised once the sequence
    has ended, which it does at its next ``stop.check()`` or, where it does not ask any more, when
    its work is done. So nothing of it is still running when the await has ended.
    """
    stop = Stop()
    ended = Event()
    outcome: _Outcome[T] = _Outcome()

    async def work() -> None:
        try:
            outcome.value = await sequence(stop)
        except BaseException as error:
            outcome.error = error
        finally:
            ended.set()

    start_detached(work)
    try:
        await ended.wait()
    except BaseException:
        stop.requested = True
        with CancelScope(shield=True):
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError:  # Task.cancel once more, which no scope shields
                    continue
        raise
    if outcome.error is not None:
        try:
            raise outcome.error
        finally:
            del outcome  # the traceback would refer to itself
    return outcome.value
