"""A lock that serves calls on a file's position in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

__all__ = ["Turns"]


class Turns:
    """A fair lock for the thread of one event loop.

    Not ``anyio.Lock``: taking an uncontended turn must cost nothing, and a callback outside of any
    task may release it.
    """

    __slots__ = ("taken", "waiting")

    def __init__(self) -> None:
        self.taken = False
        self.waiting: deque[anyio.Event | Callable[[], None]] | None = None

    async def take(self) -> None:
        """Wait for the turn, and take it. A cancelled wait passes it to the next caller."""
        if not self.taken:
            self.taken = True
            return
        if self.waiting is None:
            self.waiting = deque()
        mine = anyio.Event()
        self.waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self.give_up()
            else:
                self.waiting.remove(mine)
            raise

    def take_later(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, which must give up the turn, when its turn comes: now or later."""
        if not self.taken:
            self.taken = True
            callback()
            return
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(callback)

    def give_up(self) -> None:
        """Release the turn to the next caller."""
        if not self.waiting:
            self.taken = False
            return
        following = self.waiting.popleft()
        if isinstance(following, anyio.Event):
            following.set()
        else:
            following()
