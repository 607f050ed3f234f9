"""Spawn: trivial children started and awaited, one after the other and eight at once.

The child is a static C++ program that exits at once. Parent and children share one core. The floor
is ``posix_spawn`` and ``waitpid`` in C++.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_loops, add_rounds, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.rounds import alternate
from benchmarks.measure.self_timed import Sample, one_core_facts, self_timed_round

SUMMARY = "Spawn: start a trivial child and wait for it"

LABELS = ["children at once"]
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
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []


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
    contenders = [FLOOR, *options.loops]

    def compare(at_once: int) -> Comparison[Sample]:
        def measure_round(name: str) -> Sample:
            command = [str(native / "spawn_floor")]
            if name != FLOOR:
                command = [sys.executable, str(BENCHMARKS / "spawning.py"), "--loop", name]
            command += ["--child", str(native / "trivial_child"), "--at-once", str(at_once)]
            return self_timed_round(command, cores, options, least_seconds=LEAST_SECONDS)

        outcomes = alternate(
            contenders,
            options.rounds,
            measure_round,
            report=lambda line: say(f"{at_once} at once: {line}"),
        )
        return Comparison((str(at_once),), outcomes)

    comparisons = [compare(at_once) for at_once in options.at_once]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round, loops in turn, parent and children on one core.",
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda each: f"{each.labels[0]} at once")
    return Report(
        results={
            "page": "spawn",
            "machine": facts,
            "protocol": one_core_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={"spawn": Chart("Spawn and wait (more is better)", "children / s", [panel])},
        failures=own_failures(comparisons),
    )
