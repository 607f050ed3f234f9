"""The time of the next try after a failure: at once, and then after growing pauses."""

from __future__ import annotations

import math
from time import monotonic

__all__ = ["RetryDelay"]


class RetryDelay:
    """The pause before the next try.

    ``first`` seconds after a failure, doubled after each further one up to ``last``, and none once
    something has succeeded.
    """

    __slots__ = ("_first", "_last", "_next", "_until")

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self._next = first
        self._until = -math.inf

    def remaining(self) -> float:
        """Seconds until the next try; zero or less where it may be made."""
        return self._until - monotonic()

    def failed(self) -> None:
        """A try has failed."""
        self._until = monotonic() + self._next
        self._next = min(2 * self._next, self._last)

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self._until = -math.inf
        self._next = self._first
