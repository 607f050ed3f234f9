"""Sequences that a cancellation stops between two steps, never within one: :func:`run_whole`.

A cancelled await of a single file operation returns at once, while the kernel may still work on it.
A sequence of steps (write, sync, rename, clean up) needs more: its file must not be closed or
removed before the step in flight has ended. So it runs in a task of its own, which is not
cancelled. A shield alone is not enough: AnyIO's shield stops the scopes of AnyIO and trio, but not
asyncio's ``Task.cancel``.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from anyio import Event

from penstock._cancellation import wait_despite_cancellation
from penstock.files._backend import Operation

T = TypeVar("T")

# asyncio itself keeps only weak references to its tasks.
_tasks: set[asyncio.Task[None]] = set()


class Stopped(Exception):
    """The caller of a sequence was cancelled: the sequence must undo its steps and end."""


class Stop:
    """A sequence's view of whether its caller has been cancelled."""

    def __init__(self) -> None:
        self.requested = False
        self._step: Operation[Any] | None = None

    def request(self) -> None:
        """Stop the sequence: now, if its step has not begun or waits for another process."""
        self.requested = True
        if self._step is not None:
            self._step.request_end()

    async def step(self, operation: Operation[T]) -> T:
        """Await one step of the sequence; raise :class:`Stopped` if it was stopped before it began.

        A plain await is for steps that must be made in any case, to clean up.
        """
        if self.requested:
            operation.close()
            raise Stopped
        self._step = operation
        try:
            return await operation
        except OSError as error:
            if error.errno == errno.ECANCELED:
                self.check()
            raise
        finally:
            self._step = None

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

    ``work`` must not raise. It is cancelled only when the loop's run ends.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        trio.lowlevel.spawn_system_task(work)
        return
    task = asyncio.get_running_loop().create_task(work())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def run_whole(sequence: Callable[[Stop], Awaitable[T]]) -> T:
    """Run ``sequence(stop)`` to its end, and return or raise its result.

    Cancellation: ``stop.requested`` becomes true. A ``stop.step()`` that is queued, or waits for
    another process, ends at once. The sequence ends at its next ``stop.check()`` or
    ``stop.step()``, or when its work is done. Then the cancellation is raised. So nothing of the
    sequence runs when the await has ended.
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
        stop.request()
        await wait_despite_cancellation(ended)
        raise
    if outcome.error is not None:
        try:
            raise outcome.error
        finally:
            del outcome  # the traceback would refer to itself
    return outcome.value
