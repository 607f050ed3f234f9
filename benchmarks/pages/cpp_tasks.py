"""The cost of tasks in C++: start and join, a value through a channel, a mutex, a timeout.

Each program times itself and counts its allocations. ``shared_queue`` is not a library. It is the
minimum cost of a design with one queue for all threads: frames on the heap, every resumption
through a queue behind a lock, no cancellation, errors or scopes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.measure import self_timed
from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric, compare_in_rounds
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.library_stand import library_facts
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "C++ libraries: what tasks, channels, mutexes and timers cost"

CONTENDERS = [OURS, "asio", "asio_newest", "shared_queue"]
WHAT = {
    "spawn": "start and join a task",
    "hop": "a value through a channel",
    "mutex": "hand a mutex over",
    "timer": "set and cancel a time-out",
}
LEAST_SECONDS = 1e-9  # a few instructions


@dataclass(frozen=True)
class Sample(self_timed.Sample):
    """One round of one library."""

    allocations: int

    def __str__(self) -> str:
        return f"{CPU.value(self):.1f} ns CPU, {ALLOCATIONS.value(self):.3f} allocations each"


CPU: Metric[Sample] = Metric(
    "cpu_ns_per_operation",
    "CPU, ns each (less is better):",
    lambda sample: sample.cpu * 1e9,
    digits=1,
    more_is_better=False,
)
ALLOCATIONS: Metric[Sample] = Metric(
    "allocations_per_operation",
    "Allocations each (less is better):",
    lambda sample: sample.allocations / sample.operations,
    digits=3,
    more_is_better=False,
)
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []
PAGE = DeclaredPage(
    name="cpp_tasks",
    labels=["what"],
    metrics=[CPU, ALLOCATIONS],
    charts={"cpp_tasks": Bars("C++ tasks (less is better)", "ns each", CPU)},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_rounds(parser, rounds=7, seconds=0.4, warmup=0.1)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure everything, the libraries in turn."""
    facts = library_facts(["asio_newest"], ["libasio-dev"])
    shorten_if_quick(options)
    programs = build_libraries()

    def measure_round(what: str, name: str) -> Sample:
        command = [str(programs / f"tasks_{name}"), "--what", what]
        return self_timed.self_timed_round(
            Sample, command, cores, options, least_seconds=LEAST_SECONDS
        )

    comparisons = compare_in_rounds(
        {(text,): what for what, text in WHAT.items()},
        CONTENDERS,
        options.rounds,
        measure_round,
        say,
    )
    how = "programs in turn, on one core."
    return PAGE.report(comparisons, facts, self_timed.one_core_method(options, cores, how))
