"""One timer and one wake-up for all tasks whose slots are due at the same moment.

Devices of one rate that begin together share every slot. Each task with a timer of its own would
wake the loop once a device; so the first that waits for a moment makes the timer, and the others
join it.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns

__all__ = ["SlotTimer", "asyncio_loop"]


def asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the running asyncio task; None in a task of trio."""
    try:
        return None if asyncio.current_task() is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Moment:
    """The tasks that wait for one moment, and its timer."""

    __slots__ = ("timer", "waiters")

    def __init__(self) -> None:
        self.waiters: list[asyncio.Future[None]] = []
        self.timer: asyncio.TimerHandle | None = None


class SlotTimer:
    """Waits of the tasks of one asyncio event loop for moments of ``time.monotonic_ns``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._moments: dict[int, _Moment] = {}

    async def wait_until(self, target_ns: int) -> None:
        """Return when ``time.monotonic_ns() >= target_ns``, with all others that wait for it."""
        moment = self._moments.get(target_ns)
        if moment is None:
            moment = self._moments[target_ns] = _Moment()
            self._arm(moment, target_ns)
        waiter = self.loop.create_future()
        moment.waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            self._leave(moment, target_ns, waiter)
            raise

    def _arm(self, moment: _Moment, target_ns: int) -> None:
        # A loop's clock need not be ours, so the time that is left is computed anew.
        left_s = max(target_ns - monotonic_ns(), 0) / 1e9
        moment.timer = self.loop.call_later(left_s, self._ring, moment, target_ns)

    def _ring(self, moment: _Moment, target_ns: int) -> None:
        if monotonic_ns() < target_ns:
            # A loop whose timers count whole milliseconds may fire early.
            self._arm(moment, target_ns)
            return
        del self._moments[target_ns]
        moment.timer = None
        for waiter in moment.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _leave(self, moment: _Moment, target_ns: int, waiter: asyncio.Future[None]) -> None:
        moment.waiters.remove(waiter)
        if not moment.waiters and moment.timer is not None:
            moment.timer.cancel()
            del self._moments[target_ns]
