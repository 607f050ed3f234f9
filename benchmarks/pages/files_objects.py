"""File objects: what an open file costs, call by call, beside the built-in ``open``.

Each contender is a separate process (``benchmarks/file_objects.py``), in turn. The built-in's calls
block, the others are awaited, on asyncio's own loop unless the name tells another. pyuring has no
file object: see the page files_pyuring. CPU time is compared, which counts worker threads too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.file_objects import WORKS
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
from benchmarks.measure.file_stand import working_folder
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import choices
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import run
from benchmarks.measure.rounds import alternate

SUMMARY = "File objects: open, read, close, lines and questions beside the built-in open"

CONTENDERS = [
    *("built-in", OURS, f"{OURS}@asyncio", f"{OURS}@uvloop"),
    *("aiofiles", "aiofiles@uvloop", f"aiofiles@{OURS}", "anyio", "aiofile", "caio"),
]
LABELS = ["work"]
TIMEOUT = 60.0
QUICK_SECONDS = 0.05
NAMES = {
    "open-read-close": "open, read 4 KiB, close",
    "open-read-close-tasks": "the same in 64 tasks",
    "open-read-close-text": "open, read 4 KiB of text, close",
    "iterate-bytes": "a line of `async for`, bytes",
    "iterate-text": "a line of `async for`, text",
    "readlines-bytes": "a line of `readlines`, bytes",
    "readlines-text": "a line of `readlines`, text",
    "writelines-bytes": "a line of `writelines`, bytes",
    "writelines-text": "a line of `writelines`, text",
    "readline-bytes": "`readline`, bytes",
    "readline-text": "`readline`, text",
    "write-bytes": "`write` of a line, bytes",
    "write-text": "`write` of a line, text",
    "pread": "a read of 4 KiB, one a call",
    "pread-many": "a read of 4 KiB, 32 a call",
    "log-replay": "a record of `read_log`, beside reading the file in pieces",
    "log-open": "a record when an `AppendLog` is opened, beside reading the file in pieces",
    "stat": "`stat`",
    "stat-many": "`stat`, 500 a call",
    "exists": "`exists`",
    "isfile": "`isfile`",
    "access": "`access`",
    "walk": "a file of a walk, 10 a folder",
    "scan": "a file of 4 KiB read with its folder of 10,000",
}


@dataclass(frozen=True)
class Sample:
    """One round of one contender: microseconds for each unit of work."""

    cpu_us: float
    wall_us: float

    def __str__(self) -> str:
        return f"{self.cpu_us:.3f} us of CPU, {self.wall_us:.3f} us"


CPU: Metric[Sample] = Metric(
    "cpu_us",
    "CPU time, µs (less is better):",
    lambda each: each.cpu_us,
    digits=3,
    more_is_better=False,
)
WALL: Metric[Sample] = Metric(
    "wall_us",
    "Wall time, µs (less is better):",
    lambda each: each.wall_us,
    digits=3,
    more_is_better=False,
)
METRICS = [CPU, WALL]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--work", "open-read-close,iterate-bytes,iterate-text,readlines-text,stat"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument(
        "--work",
        type=choices("work", list(WORKS)),
        default=list(WORKS),
        help=f"of {','.join(WORKS)}",
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each contender (7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each round (0.3)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (build/)")
    parser.add_argument("--quick", action="store_true", help="two short rounds")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every kind of work, the contenders in turn, on all cores."""
    facts = machine_facts(["penstock", "aiofiles", "anyio", "aiofile", "caio", "uvloop"])
    rounds = min(options.rounds, 2) if options.quick else options.rounds
    seconds = QUICK_SECONDS if options.quick else options.seconds

    def compare(work: str, folder: Path) -> Comparison[Sample]:
        def measure_round(name: str) -> Sample:
            command = [sys.executable, str(BENCHMARKS / "file_objects.py"), "--peer", name]
            command += ["--work", work, "--folder", str(folder), "--seconds", str(seconds)]
            figures = json.loads(run(command, None, timeout=TIMEOUT))
            return Sample(figures["cpu_us"], figures["wall_us"])

        outcomes = alternate(
            CONTENDERS,
            rounds,
            measure_round,
            report=lambda line: say(f"{work}: {line}"),
        )
        return Comparison((NAMES[work],), outcomes)

    with working_folder(options.folder) as folder:
        comparisons = [compare(work, folder) for work in options.work]
    shutil.rmtree(folder, ignore_errors=True)
    parts = [
        describe(facts),
        f"Median of {rounds} rounds of {seconds:g} s with the lowest and highest round, contenders"
        " in turn, on all cores. Everything that is read is in the page cache.",
        *metric_tables(comparisons, LABELS, CONTENDERS, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, CPU, lambda each: each.labels[0])
    return Report(
        results={
            "page": "files_objects",
            "machine": facts,
            "protocol": {"rounds": rounds, "seconds": seconds},
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={"files_objects": Chart("CPU time of a call (less is better)", "µs", [panel])},
        failures=own_failures(comparisons),
    )
