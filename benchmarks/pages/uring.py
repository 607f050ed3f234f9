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
from benchmarks.measure.comparison import compare_in_rounds
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, in_lines, in_panels
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_choices, add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import Unavailable
from benchmarks.measure.self_timed import (
    CPU_OF_OPERATION,
    Sample,
    million_operations,
    one_core_method,
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
LEAST_SECONDS = 10e-9  # a NOP in C takes more
RATE = replace(million_operations(digits=3), beside_floor=True)
COSTS = [Cost(CPU_OF_OPERATION, Sample)]
COMPARISON_OPTIONS: list[str] = []
PAGE = DeclaredPage(
    name="uring",
    labels=["operation"],
    metrics=[RATE, CPU_OF_OPERATION],
    charts={
        "uring": Bars(
            "io_uring without a loop (more is better)", "million / s", RATE, in_panels(in_lines)
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_choices(parser, "--contenders", "contender", PEERS, described=",".join(PEERS))
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
    floor = build_native() / "ring_floor"
    root = options.folder or BENCHMARKS.parent / "build"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="ring-files-") as folder:
        for blocks in (CACHED_BLOCKS, DIRECT_BLOCKS):
            make_file(Path(folder), blocks)
        make_files(Path(folder))

        def measure_round(workload: str, name: str) -> Sample:
            command = [str(floor)]
            if name != FLOOR:
                script = str(BENCHMARKS / "ring_work.py")
                command = [sys.executable, script, "--contender", name]
            elif not floor.exists():
                raise Unavailable("liburing is missing (Debian: liburing-dev)")
            command += ["--workload", workload, "--folder", folder]
            return self_timed_round(Sample, command, cores, options, least_seconds=LEAST_SECONDS)

        comparisons = compare_in_rounds(
            {(workload,): workload for workload in options.workload or WORKLOADS},
            [FLOOR, *options.contenders],
            options.rounds,
            measure_round,
            say,
        )
    how = (
        "each a separate process on one core, contenders in turn. CPU is the process's; worker"
        " threads of the kernel that serve it are part of it."
    )
    return PAGE.report(comparisons, facts, one_core_method(options, cores, how))
