"""The interface between the protocol and its ways of waiting.

The protocol is written once, as coroutines. They wait on an event loop by AnyIO, or without one by
blocking calls in coroutines that never suspend (:mod:`penstock.alicat.sync`). The interface
consists of AnyIO's own primitives under their own names, so on an event loop it costs nothing.

*Rejected:* a thread with an event loop behind the synchronous calls (two thread switches a
question), and a protocol engine of events and effects (every answer would go through an interpreter
of effects, on the event loop too).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel

from penstock._lasting_timer import LastingTimer

T = TypeVar("T")


class Scope(Protocol):
    """A block that ends when its deadline has passed, as :class:`anyio.CancelScope`."""

    deadline: float
    shield: bool

    @property
    def cancelled_caught(self) -> bool:
        """Whether the block was ended by the deadline."""

    def cancel(self) -> None:
        """End the block now."""

    def __enter__(self) -> Scope: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool: ...


class Event(Protocol):
    """An event that is set once."""

    def set(self) -> object:
        """Wake the tasks that wait."""

    async def wait(self) -> object:
        """Return when it is set."""


class Alarm(Protocol):
    """Deadlines for one block after another."""

    def set(self, scope: Scope, seconds: float) -> None:
        """Let ``scope`` end after a number of seconds. Replaces the previous deadline."""

    def off(self) -> None:
        """Remove the deadline."""


class Waiting(Protocol):
    """How coroutines of the protocol wait."""

    def now(self) -> float:
        """The clock of deadlines, in seconds."""

    def scope(self, *, deadline: float = math.inf, shield: bool = False) -> Scope:
        """A block with a deadline; ``shield`` keeps cancellations from outside away."""

    def alarm(self) -> Alarm:
        """Deadlines that cost little until one has passed."""

    def event(self) -> Event:
        """An event that is not set."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    async def checkpoint_if_cancelled(self) -> None:
        """Raise the cancellation that is due, if one is."""

    async def finish(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``call`` to its end although the task is cancelled; that is raised afterwards.

        ``call`` must end by itself soon. A shielded :meth:`scope` is not enough for it: AnyIO's do
        not keep the cancellations of asyncio away (``Task.cancel``, ``asyncio.timeout``).
        """

    async def together(self, calls: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Run the calls side by side, and return when all have ended."""


def _asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the running asyncio task; ``None`` in a task of trio."""
    try:
        return None if asyncio.current_task() is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


class _LoopAlarm:
    """Deadlines by one timer of an asyncio loop. On trio, scopes keep deadlines themselves."""

    __slots__ = ("_scope", "_timer")

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._timer: LastingTimer | None = None

    def set(self, scope: Scope, seconds: float) -> None:
        loop = _asyncio_loop()
        if loop is None:
            scope.deadline = anyio.current_time() + seconds
            return
        if self._timer is None or self._timer.loop is not loop:
            self._timer = LastingTimer(loop, self._ring)
        self._scope = scope
        self._timer.set(loop.time() + seconds)

    def off(self) -> None:
        self._scope = None

    def _ring(self) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.cancel()


class _AnyioWaiting:
    """Waits on the running event loop."""

    _asyncio_scope: type[anyio.CancelScope] | None = None

    def now(self) -> float:
        loop = _asyncio_loop()
        return anyio.current_time() if loop is None else loop.time()

    def scope(self, *, deadline: float = math.inf, shield: bool = False) -> anyio.CancelScope:
        # AnyIO looks up its backend for each of them, which takes longer than creating one.
        if _asyncio_loop() is None:
            return anyio.CancelScope(deadline=deadline, shield=shield)
        if self._asyncio_scope is None:
            self._asyncio_scope = type(anyio.CancelScope())
        return self._asyncio_scope(deadline=deadline, shield=shield)

    alarm = staticmethod(_LoopAlarm)
    event = staticmethod(anyio.Event)
    sleep = staticmethod(anyio.sleep)
    checkpoint_if_cancelled = staticmethod(anyio.lowlevel.checkpoint_if_cancelled)

    async def finish(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop = _asyncio_loop()
        with self.scope(shield=True):
            return await (call() if loop is None else _finish_task(loop.create_task(call())))
        raise AssertionError("a block without a deadline ends with what is in it")

    async def together(self, calls: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(call)


async def _finish_task(task: asyncio.Task[T]) -> T:
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # else asyncio logs that nobody has seen it
    raise cancellation


ANYIO: Waiting = _AnyioWaiting()
