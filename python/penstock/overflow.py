"""What happens to values that arrive faster than they are taken."""

from __future__ import annotations

from enum import Enum

__all__ = ["OverflowPolicy"]


class OverflowPolicy(Enum):
    """What happens when a buffer is full because its reader does not keep up.

    BLOCK asks for no more until there is room; DROP_NEWEST goes on and throws the new values away;
    DROP_OLDEST throws the oldest waiting values away. What is dropped is counted.
    """

    BLOCK = "block"
    DROP_NEWEST = "drop_newest"
    DROP_OLDEST = "drop_oldest"
