"""The cost of tasks in C++: start and join, a value through a channel, a mutex, a timeout.

Each program times itself and counts its allocations. ``shared_queue`` is not a library. It is the
minimum cost of a design with one queue for all threads: frames on the heap, every resumption
through a queue behind a lock, no cancellation, errors or scopes.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.library_stand import library_facts
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import run
from benchmarks.measure.rounds import alternate
from benchmarks.measure.sanity import check_clocks
from benchmarks.measure.self_timed import GRACE, one_core_facts

SUMMARY = "C++ libraries: what tasks, channels, mutexes and timers cost"

CONTENDERS = [OURS, "asio", "asio_newest", "shared_queue"]
WHAT = {
    "spawn": "start and join a task",
    "hop": "a value through a channel",
    "mutex": "hand a mutex over",
    "timer": "set and cancel a time-out",
}
LABELS = ["what"]
LEAST_SECONDS = 1e-9  # a few instructions


@dataclass(frozen=True)
class Sample:
    """One round of one library."""

    operations: int
    seconds: float
    cpu_seconds: float
    allocations: int

    def __str__(self) -> str:
        return f"{CPU.value(self):.1f} ns CPU, {ALLOCATIONS.value(self):.3f} allocations each"


CPU: Metric[Sample] = Metric(
    "cpu_ns_per_operation",
    "CPU, ns each (less is better):",
    lambda sample: sample.cpu_seconds / sample.operations * 1e9,
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
METRICS = [CPU, ALLOCATIONS]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []


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
        command += ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
        before = time.monotonic()
        output = run(command, cores.server, timeout=options.seconds + GRACE)
        outside = time.monotonic() - before
        sample = Sample(**json.loads(output))
        check_clocks(
            operations=sample.operations,
            seconds=sample.seconds,
            asked_seconds=options.seconds,
            outside_seconds=outside,
            cpu=sample.cpu_seconds,
            least_seconds=LEAST_SECONDS,
        )
        return sample

    def compare(what: str) -> Comparison[Sample]:
        outcomes = alternate(
            CONTENDERS,
            options.rounds,
            lambda name: measure_round(what, name),
            report=lambda line: say(f"{WHAT[what]}: {line}"),
        )
        return Comparison((WHAT[what],), outcomes)

    comparisons = [compare(what) for what in WHAT]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round, programs in turn, on one core.",
        *metric_tables(comparisons, LABELS, CONTENDERS, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, CPU, lambda each: each.labels[0])
    return Report(
        results={
            "page": "cpp_tasks",
            "machine": facts,
            "protocol": one_core_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={"cpp_tasks": Chart("C++ tasks (less is better)", "ns each", [panel])},
        failures=own_failures(comparisons),
    )
