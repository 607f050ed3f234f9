"""An asyncio event loop on which time passes only while nothing else happens.

A wait of an hour takes no time: when nothing is ready, the clock jumps to the next timer. So a run
that spends its time in timeouts and on slow lines takes as long as its computation.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """A loop whose ``time`` is virtual; give ``loop.time`` to a bus as its clock.

    It is for programs without I/O: a ready descriptor is handled, but the clock does not wait for
    it. A program that waits without a timer ends with a RuntimeError, because its clock would never
    move again.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._now += seconds


class _JumpingSelector(selectors.BaseSelector):
    """Looks at its descriptors without waiting, and moves the clock instead."""

    def __init__(self, loop: VirtualClockLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Threads wake a loop through a descriptor, so it is looked at, but not at every turn: a
        # system call for each step would be half of the run.
        if timeout == 0:
            return []
        ready = self._real.select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that never happens")
            self._loop.advance(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
