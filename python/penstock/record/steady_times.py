"""Times of the monotonic clock in the scale of the wall clock, for axes of elapsed time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["SteadyTimes"]


class SteadyTimes:
    """Where ``t_mono_ns`` lies in the scale of ``t_utc``: a clock that is set moves nothing.

    The scales agree at the first row of each boot of the machine.
    """

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}

    def offset(self, metadata: Mapping[str, Any], t_utc: int, t_mono: int | None) -> int | None:
        """What is added to ``t_mono_ns`` of a part; None if its boot is not known.

        Args:
            metadata: of the part.
            t_utc: the time of its first row in nanoseconds since 1970.
            t_mono: ``t_mono_ns`` of that row.
        """
        boot = metadata.get("boot_id")
        if not isinstance(boot, str) or t_mono is None:
            return None
        return self._offsets.setdefault(boot, t_utc - t_mono)
