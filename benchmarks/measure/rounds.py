"""Rounds in turn, A B C A B C, so that a drift of the machine meets every contender alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from benchmarks.measure.processes import Failed, Unavailable

Sample = TypeVar("Sample")


@dataclass
class Outcome(Generic[Sample]):
    """What a contender gave: its samples, or why there are none."""

    samples: list[Sample] = field(default_factory=list)
    missing: str | None = None


def alternate(
    contenders: Sequence[str],
    rounds: int,
    measure: Callable[[str], Sample],
    *,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Outcome[Sample]]:
    """Measure every contender once a round.

    A contender that cannot run, or breaks in a round, is out with its reason, samples and all; the
    others go on.
    """
    outcomes: dict[str, Outcome[Sample]] = {name: Outcome() for name in contenders}
    for number in range(1, rounds + 1):
        for name in contenders:
            outcome = outcomes[name]
            if outcome.missing is not None:
                continue
            try:
                sample = measure(name)
            except (Unavailable, Failed) as error:
                outcome.samples.clear()
                outcome.missing = str(error)
                report(f"{name}: n/a, {error}")
            else:
                outcome.samples.append(sample)
                report(f"{name}: round {number} of {rounds}: {sample}")
    return outcomes
