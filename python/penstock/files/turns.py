"""One call on a file's position at a time, in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

__all__ = ["Turns"]


class Turns:
    """First come, first served. Belongs to one event loop's thread.

    Not ``anyio.Lock``: asking whose turn it is must cost nothing when nobody else is there, and the
    turn may be given up by a callback, outside of any task.
    """

    __slots__ = ("taken", "waiting")

    def __init__(self) -> None:
        self.taken = False
        self.waiting: deque[anyio.Event | Callable[[], None]] | None = None

    async def take(self) -> None:
        """Wait for the turn, and take it. A cancelled wait leaves it to the next."""
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
        """Call ``callback``, which gives the turn up, when it is its turn: at once or later."""
        if not self.taken:
            self.taken = True
            callback()
            return
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(callback)

    def give_up(self) -> None:
        """Let the next one have its turn."""
        if not self.waiting:
            self.taken = False
            return
        following = self.waiting.popleft()
        if isinstance(following, anyio.Event):
            following.set()
        else:
            following()
