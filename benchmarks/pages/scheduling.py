"""Scheduling: the cost of callbacks, timers and tasks on each loop, without I/O.

Every workload (``benchmarks/scheduling.py``) runs on every loop in a separate process, in turn.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_loops, add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.rounds import alternate
from benchmarks.measure.self_timed import (
    CPU_OF_OPERATION,
    Sample,
    million_operations,
    one_core_facts,
    self_timed_round,
)
from benchmarks.scheduling import WORKLOADS

SUMMARY = "Scheduling: callbacks, timers and tasks"

LABELS = ["operation"]
LEAST_SECONDS = 10e-9  # a Python call alone takes more
RATE = million_operations(digits=2)
CPU = CPU_OF_OPERATION
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    add_rounds(parser, rounds=5, seconds=0.25, warmup=0.1)
    parser.add_argument(
        "--workload",
        action="append",
        choices=WORKLOADS,
        help="only this one; may be given more than once",
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every workload, the loops in turn."""
    facts = machine_facts(PACKAGES)
    shorten_if_quick(options)
    script = str(BENCHMARKS / "scheduling.py")

    def compare(workload: str) -> Comparison[Sample]:
        def measure_round(name: str) -> Sample:
            command = [sys.executable, script, "--loop", name, "--workload", workload]
            return self_timed_round(command, cores, options, least_seconds=LEAST_SECONDS)

        outcomes = alternate(
            options.loops,
            options.rounds,
            measure_round,
            report=lambda line: say(f"{workload}: {line}"),
        )
        return Comparison((workload,), outcomes)

    comparisons = [compare(workload) for workload in options.workload or WORKLOADS]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round, each a separate process on one core, loops in turn.",
        *metric_tables(comparisons, LABELS, options.loops, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda each: each.labels[0].replace(", ", ",\n"))
    return Report(
        results={
            "page": "scheduling",
            "machine": facts,
            "protocol": one_core_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "scheduling": Chart("Scheduling (more is better)", "million operations / s", [panel])
        },
        failures=own_failures(comparisons),
    )
