"""io_uring without an event loop: NOPs, reads and small files, beside pyuring and plain ``os``.

The floor is liburing in C++. Every workload runs on every contender in a separate process, in turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_rounds, choices, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import Unavailable
from benchmarks.measure.rounds import alternate
from benchmarks.measure.self_timed import (
    CPU_OF_OPERATION,
    Sample,
    million_operations,
    one_core_facts,
    self_timed_round,
)
from benchmarks.ring_work import (
    CACHED_BLOCKS,
    DIRECT_BLOCKS,
    WORKLOADS,
    make_file,
    make_files,
)

SUMMARY = "io_uring without an event loop: NOPs, reads, small files"

PEERS = [OURS, "pyuring", "os"]
LABELS = ["operation"]
LEAST_SECONDS = 10e-9  # a NOP in C takes more
RATE = replace(million_operations(digits=3), beside_floor=True)
CPU = CPU_OF_OPERATION
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS: list[str] = []


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument(
        "--contenders", type=choices("contender", PEERS), default=PEERS, help=",".join(PEERS)
    )
    add_rounds(parser, rounds=7, seconds=0.4, warmup=0.1)
    parser.add_argument(
        "--workload",
        action="append",
        choices=WORKLOADS,
        help="only this one; may be given more than once",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the files are made: on a disk, not in memory (build/)"
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every workload, the contenders in turn."""
    facts = machine_facts([OURS, "pyuring"], libraries=["liburing-dev"], compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    root = options.folder or BENCHMARKS.parent / "build"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="ring-files-") as folder:
        for blocks in (CACHED_BLOCKS, DIRECT_BLOCKS):
            make_file(Path(folder), blocks)
        make_files(Path(folder))

        def compare(workload: str) -> Comparison[Sample]:
            def measure_round(name: str) -> Sample:
                floor = native / "ring_floor"
                command = [str(floor)]
                if name != FLOOR:
                    script = str(BENCHMARKS / "ring_work.py")
                    command = [sys.executable, script, "--contender", name]
                elif not floor.exists():
                    raise Unavailable("liburing is missing (Debian: liburing-dev)")
                command += ["--workload", workload, "--folder", folder]
                return self_timed_round(command, cores, options, least_seconds=LEAST_SECONDS)

            outcomes = alternate(
                [FLOOR, *options.contenders],
                options.rounds,
                measure_round,
                report=lambda line: say(f"{workload}: {line}"),
            )
            return Comparison((workload,), outcomes)

        comparisons = [compare(workload) for workload in options.workload or WORKLOADS]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round, each a separate process on one core, contenders in turn. CPU is the process's;"
        " worker threads of the kernel that serve it are part of it.",
        *metric_tables(comparisons, LABELS, [FLOOR, *options.contenders], METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda each: each.labels[0].replace(", ", ",\n"))
    return Report(
        results={
            "page": "uring",
            "machine": facts,
            "protocol": one_core_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={"uring": Chart("io_uring without a loop (more is better)", "million / s", [panel])},
        failures=own_failures(comparisons),
    )
