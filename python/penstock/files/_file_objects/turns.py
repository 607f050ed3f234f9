"""Turns: the calls of one object, one at a time, in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio


class TakesTurns:
    """An object whose calls take turns, in the thread of one event loop.

    Not ``anyio.Lock``: taking an uncontended turn must cost nothing, and a callback outside of any
    task may release it. The native part of a file holds ``_turn_taken`` and ``_turn_waiting``, and
    takes a free turn itself.
    """

    if not TYPE_CHECKING:  # the attributes are the derived class's
        __slots__ = ()

    _turn_taken: bool
    _turn_waiting: deque[anyio.Event | Callable[[], None]] | None

    async def _take_turn(self) -> None:
        """Wait for the turn, and take it. A cancelled wait passes it to the next caller."""
        if not self._turn_taken:
            self._turn_taken = True
            return
        mine = anyio.Event()
        self._queue().append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self._give_up_turn()
            else:
                self._queue().remove(mine)
            raise

    def _take_turn_later(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, which must give up the turn, when its turn comes: now or later."""
        if not self._turn_taken:
            self._turn_taken = True
            callback()
            return
        self._queue().append(callback)

    def _give_up_turn(self) -> None:
        """Release the turn to the next caller."""
        waiting = self._turn_waiting
        if not waiting:
            self._turn_waiting = None
            self._turn_taken = False
            return
        following = waiting.popleft()
        if isinstance(following, anyio.Event):
            following.set()
        else:
            following()

    def _queue(self) -> deque[anyio.Event | Callable[[], None]]:
        if self._turn_waiting is None:
            self._turn_waiting = deque()
        return self._turn_waiting
