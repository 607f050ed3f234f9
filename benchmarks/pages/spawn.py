"""Spawn: trivial children started and awaited, one after the other and eight at once.

The child is a static C++ program that exits at once. Parent and children share one core. The floor
is ``posix_spawn`` and ``waitpid`` in C++.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric, compare_in_rounds
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, in_panels
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_loops, add_rounds, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.self_timed import Sample, one_core_method, self_timed_round

SUMMARY = "Spawn: start a trivial child and wait for it"

LEAST_SECONDS = 20e-6  # an exec alone takes more
RATE: Metric[Sample] = Metric(
    "children_per_second",
    "Children per second (more is better):",
    lambda sample: sample.rate,
    digits=0,
)
CPU: Metric[Sample] = Metric(
    "parent_cpu_us_per_child",
    "CPU of the parent, µs per child (less is better):",
    lambda sample: sample.cpu * 1e6,
    digits=0,
    more_is_better=False,
)
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []
PAGE = DeclaredPage(
    name="spawn",
    labels=["children at once"],
    metrics=[RATE, CPU],
    charts={
        "spawn": Bars(
            "Spawn and wait (more is better)",
            "children / s",
            RATE,
            in_panels(lambda each: f"{each.labels[0]} at once"),
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    parser.add_argument("--at-once", type=numbers, default=[1, 8], help="children at once (1,8)")
    add_rounds(parser, rounds=5, seconds=0.6, warmup=0.2)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every number of children, the loops in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()

    def measure_round(at_once: int, name: str) -> Sample:
        command = [str(native / "spawn_floor")]
        if name != FLOOR:
            command = [sys.executable, str(BENCHMARKS / "spawning.py"), "--loop", name]
        command += ["--child", str(native / "trivial_child"), "--at-once", str(at_once)]
        return self_timed_round(Sample, command, cores, options, least_seconds=LEAST_SECONDS)

    comparisons = compare_in_rounds(
        {(str(at_once),): at_once for at_once in options.at_once},
        [FLOOR, *options.loops],
        options.rounds,
        measure_round,
        say,
    )
    how = "loops in turn, parent and children on one core."
    return PAGE.report(comparisons, facts, one_core_method(options, cores, how))
