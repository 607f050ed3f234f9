"""What happens to values that arrive faster than they are taken."""

from __future__ import annotations

from enum import Enum

__all__ = ["OverflowPolicy"]


class OverflowPolicy(Enum):
    """What happens when a buffer is full because its reader does not keep up.

    BLOCK reads no more until there is room. DROP_NEWEST drops the new values, DROP_OLDEST the
    oldest waiting ones. Dropped values are counted.
    """

    BLOCK = "block"
    DROP_NEWEST = "drop_newest"
    DROP_OLDEST = "drop_oldest"
