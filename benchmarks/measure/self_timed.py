"""A contender that times itself: a process of its own that prints what it did and what it took.

Its one JSON line has ``operations``, ``seconds`` and ``cpu_seconds`` of the timed region.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.processes import run
from benchmarks.measure.sanity import check_clocks

GRACE = 30.0  # seconds beyond the timed region for start, warm-up and end


@dataclass(frozen=True)
class Sample:
    """One round of one contender."""

    operations: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds

    @property
    def cpu(self) -> float:
        """CPU seconds of the process for an operation."""
        return self.cpu_seconds / self.operations

    def __str__(self) -> str:
        return f"{self.rate:.4g} a second, {self.cpu * 1e6:.3f} µs CPU each"


def self_timed_round(
    command: Sequence[str], cores: Cores, options: argparse.Namespace, *, least_seconds: float
) -> Sample:
    """Run the program to its end.

    Args:
        least_seconds: what one operation cannot take less than on one core.

    Raises:
        Unavailable: if the loop cannot do what is asked.
        Failed: if it breaks.
        Impossible: if the figures cannot be true.
    """
    timing = ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
    before = time.monotonic()
    output = run([*command, *timing], cores.server, timeout=options.seconds + GRACE)
    outside = time.monotonic() - before
    sample = Sample(**json.loads(output))
    check_clocks(
        operations=sample.operations,
        seconds=sample.seconds,
        asked_seconds=options.seconds,
        outside_seconds=outside,
        cpu=sample.cpu_seconds,
        least_seconds=least_seconds,
    )
    return sample


def one_core_facts(options: argparse.Namespace, cores: Cores) -> dict[str, object]:
    """How it was measured, ready for JSON."""
    return {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "core": cores.server,
    }
