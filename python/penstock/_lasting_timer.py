"""Deadlines of one wait after another: :class:`LastingTimer`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class LastingTimer:
    """One timer of an asyncio loop for all deadlines of a task.

    What is waited for removes nearly every deadline before it has passed. A timer for each, created
    and cancelled, costs as much as the rest of a question to an instrument. So the timer stays
    unchanged when a later deadline is set, and checks the deadline in force when it fires.

    Args:
        loop: Its loop.
        ring: Called when a deadline has passed. It is kept alive until the timer has fired.
    """

    __slots__ = ("_deadline", "_fires_at", "_ring", "_timer", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self.loop = loop
        self._ring = ring
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = math.inf

    def set(self, deadline: float) -> None:
        """Ring at ``deadline``, a time of the loop. Replaces the previous deadline."""
        self._deadline = deadline
        if deadline < self._fires_at:
            self._arm()

    def off(self) -> None:
        """Remove the deadline."""
        self._deadline = math.inf

    def cancel(self) -> None:
        """Remove the timer too."""
        self._deadline = self._fires_at = math.inf
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = self._deadline
        self._timer = self.loop.call_at(self._deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._fires_at = math.inf
        if self._deadline == math.inf:
            return
        if self.loop.time() < self._deadline:
            self._arm()
            return
        self._deadline = math.inf
        self._ring()
