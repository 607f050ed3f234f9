"""Charts that every browser shows, as in ``run.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ChartPlan:
    """A chart of one or several curves. A curve is a pair of a device and a field.

    Attributes:
        title: the title above the chart; by default the names of the devices.
        left: the curves on the left axis.
        right: the curves on the right axis.
        log: the sides whose axis is logarithmic, of ``"left"`` and ``"right"``.
    """

    title: str = ""
    left: tuple[tuple[str, str], ...] = ()
    right: tuple[tuple[str, str], ...] = ()
    log: tuple[str, ...] = ()

    def described(self) -> dict[str, Any]:
        """The chart as the page reads it."""
        sides = (("left", self.left), ("right", self.right))
        return {
            "title": self.title,
            "curves": [[*curve, side] for side, curves in sides for curve in curves],
            "log": list(self.log),
        }
