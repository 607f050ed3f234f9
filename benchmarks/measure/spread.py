"""Medians with their spread, and ratios of runs that were measured side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MANY = 20
"""With more rounds, the lowest and highest describe the machine rather than the contender."""


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of some rounds; of more than 20, the outer deciles."""

    median: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        return {"median": self.median, "low": self.low, "high": self.high}


def spread(values: Sequence[float]) -> Spread:
    """Summarise the rounds; raises ``ValueError`` if there are none."""
    if not values:
        raise ValueError("a spread needs at least one round")
    if len(values) > MANY:
        deciles = statistics.quantiles(values, n=10, method="inclusive")
        return Spread(statistics.median(values), deciles[0], deciles[-1])
    return Spread(statistics.median(values), min(values), max(values))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Spread of the ratios round by round.

    Rounds alternate, so a slow moment of the machine affects both halves of a pair. The ratio of
    neighbours varies less than the ratio of two medians.

    Raises:
        ValueError: if the numbers of rounds differ.
    """
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])
