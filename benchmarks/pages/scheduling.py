"""Scheduling: the cost of callbacks, timers and tasks on each loop, without I/O.

Every workload (``benchmarks/scheduling.py``) runs on every loop in a separate process, in turn.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import compare_in_rounds
from benchmarks.measure.contenders import PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, in_lines, in_panels
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_loops, add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.self_timed import (
    CPU_OF_OPERATION,
    Sample,
    million_operations,
    one_core_method,
    self_timed_round,
)
from benchmarks.scheduling import WORKLOADS

SUMMARY = "Scheduling: callbacks, timers and tasks"

LEAST_SECONDS = 10e-9  # a Python call alone takes more
RATE = million_operations(digits=2)
COSTS = [Cost(CPU_OF_OPERATION, Sample)]
COMPARISON_OPTIONS: list[str] = []
PAGE = DeclaredPage(
    name="scheduling",
    labels=["operation"],
    metrics=[RATE, CPU_OF_OPERATION],
    charts={
        "scheduling": Bars(
            "Scheduling (more is better)", "million operations / s", RATE, in_panels(in_lines)
        )
    },
)


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

    def measure_round(workload: str, name: str) -> Sample:
        command = [sys.executable, script, "--loop", name, "--workload", workload]
        return self_timed_round(Sample, command, cores, options, least_seconds=LEAST_SECONDS)

    comparisons = compare_in_rounds(
        {(workload,): workload for workload in options.workload or WORKLOADS},
        options.loops,
        options.rounds,
        measure_round,
        say,
    )
    how = "each a separate process on one core, loops in turn."
    return PAGE.report(comparisons, facts, one_core_method(options, cores, how))
