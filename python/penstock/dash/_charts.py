"""Charts that are laid out for everybody, as in ``run.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ChartPlan"]


@dataclass(frozen=True, slots=True)
class ChartPlan:
    """A chart of one or several curves, each a device and a field.

    Attributes:
        title: above the chart; by default the names of the devices.
        left: the curves whose axis is on the left.
        right: those whose axis is on the right.
        log: the sides whose axis is logarithmic, ``"left"``, ``"right"``.
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
