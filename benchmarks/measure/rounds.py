"""Rounds in turn, A B C A B C, so that a drift of the machine affects all contenders alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from benchmarks.measure.builds import OLD, Build, builds_of, programs_of
from benchmarks.measure.processes import Failed, Unavailable
from benchmarks.measure.sanity import Impossible

Sample = TypeVar("Sample")
Other = TypeVar("Other")
Found = TypeVar("Found")


@dataclass
class Outcome(Generic[Sample]):
    """The samples of a contender, or the reason why there are none.

    Attributes:
        samples: in the order of measurement.
        missing: why there are none.
        old_samples: those of the old build when two builds are compared.
    """

    samples: list[Sample] = field(default_factory=list)
    missing: str | None = None
    old_samples: list[Sample] = field(default_factory=list)

    @property
    def is_out(self) -> bool:
        """Whether the contender takes no more turns."""
        return self.missing is not None

    def of(self, build: Build | None) -> list[Sample]:
        """The samples of a build; None means the only one."""
        return self.old_samples if build is not None and build.name == OLD else self.samples

    def map(self, function: Callable[[Sample], Other]) -> Outcome[Other]:
        """The outcome with *function* applied to each sample."""
        return Outcome(
            [function(sample) for sample in self.samples],
            self.missing,
            [function(sample) for sample in self.old_samples],
        )

    def attempt(self, build: Build | None, action: Callable[[], Found]) -> Found | None:
        """Run *action* with the programs of a build; None if the contender is or gets out.

        A contender that cannot run, fails, or has figures that cannot be true, is out with its
        reason and loses its samples. The others go on.
        """
        if self.is_out:
            return None
        try:
            with programs_of(build):
                return action()
        except (Unavailable, Failed, Impossible) as error:
            self.samples.clear()
            self.old_samples.clear()
            self.missing = str(error) if build is None else f"{build.name}: {error}"
            return None


def entrants(contenders: Sequence[str]) -> list[tuple[str, Build | None]]:
    """Who takes turns: each contender, or each of Penstock's with the old and the new build."""
    return [(name, build) for name in contenders for build in builds_of(name)]


def shown(name: str, build: Build | None) -> str:
    """An entrant's name in a line of progress."""
    return name if build is None else f"{name} ({build.name})"


def about(what: Sequence[str], say: Callable[[str], None]) -> Callable[[str], None]:
    """*say* for lines of progress, which then begin with what they are about."""
    return lambda line: say(f"{', '.join(what)}: {line}")


def alternate(
    contenders: Sequence[str],
    rounds: int,
    measure: Callable[[str], Sample],
    *,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Outcome[Sample]]:
    """Measure every contender once a round.

    A contender that cannot run, or fails in a round, is out with its reason and loses its samples;
    the others continue.
    """
    taking_turns = entrants(contenders)
    outcomes: dict[str, Outcome[Sample]] = {name: Outcome() for name, _ in taking_turns}
    for number in range(1, rounds + 1):
        for name, build in taking_turns:
            outcome = outcomes[name]
            if outcome.is_out:
                continue
            sample = outcome.attempt(build, partial(measure, name))
            if sample is None:
                report(f"{name}: n/a, {outcome.missing}")
            else:
                outcome.of(build).append(sample)
                report(f"{shown(name, build)}: round {number} of {rounds}: {sample}")
    return outcomes
