"""A contender that times itself: a separate process that prints its operations and times.

Its one JSON line has ``operations``, ``seconds`` and ``cpu_seconds`` of the timed region.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric
from benchmarks.measure.page import Method
from benchmarks.measure.processes import figures_of
from benchmarks.measure.sanity import check_clocks

GRACE = 30.0  # seconds beyond the timed region for start, warm-up and end
Timed = TypeVar("Timed", bound="Sample")


@dataclass(frozen=True)
class Sample:
    """One round of one contender."""

    operations: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def cpu(self) -> float:
        """CPU seconds of the process per operation."""
        return self.cpu_seconds / self.operations

    def __str__(self) -> str:
        return f"{self.rate:.4g} a second, {self.cpu * 1e6:.3f} µs CPU each"


def million_operations(digits: int) -> Metric[Sample]:
    """Return the metric of operations per second, in millions with ``digits`` decimals."""
    return Metric(
        "operations_per_second",
        "Million operations per second (more is better):",
        lambda sample: sample.rate,
        digits=digits,
        scale=1e6,
    )


CPU_OF_OPERATION: Metric[Sample] = Metric(
    "cpu_ns_per_operation",
    "CPU, ns per operation (less is better):",
    lambda sample: sample.cpu * 1e9,
    digits=0,
    more_is_better=False,
)


def self_timed_round(
    kind: type[Timed],
    command: Sequence[str],
    cores: Cores,
    options: argparse.Namespace,
    *,
    least_seconds: float,
) -> Timed:
    """Run the program to its end.

    Args:
        kind: the sample: its fields are what the program prints.
        command: the program.
        cores: it runs on that of the server.
        options: those of :func:`benchmarks.measure.options.add_rounds`.
        least_seconds: lower bound for the time of one operation on one core.

    Raises:
        Unavailable: if the loop cannot do what is asked.
        Failed: if it breaks.
        Impossible: if the figures cannot be true.
    """
    timing = ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
    before = time.monotonic()
    figures = figures_of([*command, *timing], cores.server, timeout=options.seconds + GRACE)
    outside = time.monotonic() - before
    sample = kind(**figures)
    check_clocks(
        operations=sample.operations,
        seconds=sample.seconds,
        asked_seconds=options.seconds,
        outside_seconds=outside,
        cpu=sample.cpu_seconds,
        least_seconds=least_seconds,
    )
    return sample


def one_core_method(options: argparse.Namespace, cores: Cores, how: str) -> Method:
    """How a page is measured whose programs time themselves; ``how`` ends its sentence."""
    facts: dict[str, object] = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "core": cores.server,
    }
    rounds = f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and"
    return Method(facts, f"{rounds} highest round, {how}")
