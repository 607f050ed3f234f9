"""Gaps: how long a file operation blocks the loop.

A timer of 1 ms runs on the loop during one large operation. Shown is the longest time between two
ticks. Files that are read are in the page cache. aiofiles is the peer where it has the operation;
it runs on asyncio's own loop.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.file_gaps import OPERATIONS
from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison, Metric, compare_in_rounds
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.file_stand import working_folder
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import figures_of

SUMMARY = "Gaps: the longest time that a file operation keeps the loop from others"

CONTENDERS = [OURS, "aiofiles"]
SECONDS = 180.0
QUICK_SCALE = 200
NAMES = {
    "read": "read(), 1 GiB of bytes",
    "read-file": "read_file, 1 GiB",
    "write-file": "write_file, 1 GiB",
    "copy": "copy, 1 GiB",
    "read-text": "read(), 200 MiB of text",
    "write-text": "write(), 100 MiB of text",
    "lines": "1,000,000 lines of text",
    "binary-lines": "1,000,000 lines of bytes",
    "small-files": "read_files, 50,000 of 4 KiB",
    "append": "append, 100 MiB",
    "records": "read_log, 1,000,000 records",
}


@dataclass(frozen=True)
class Gap:
    """One round of one contender, in seconds."""

    gap: float
    seconds: float

    def __str__(self) -> str:
        return f"longest gap {self.gap * 1e3:.1f} ms, took {self.seconds:.2f} s"


GAP: Metric[Gap] = Metric(
    "longest_gap_ms",
    "Longest gap of a timer of 1 ms, ms (less is better):",
    lambda each: each.gap * 1e3,
    digits=1,
    more_is_better=False,
)
TOOK: Metric[Gap] = Metric(
    "seconds",
    "The operation took, s (less is better):",
    lambda each: each.seconds,
    digits=2,
    more_is_better=False,
)
COSTS = [Cost(TOOK, Gap)]
COMPARISON_OPTIONS = ["--operations", "copy,read-file,write-file"]
PAGE = DeclaredPage(
    name="file_gaps",
    labels=["operation"],
    metrics=[GAP, TOOK],
    charts={"file_gaps": Bars("Longest gap of the loop (less is better)", "ms", GAP)},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_choices(parser, "--operations", "operation", OPERATIONS)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each contender (10)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (build/)")
    parser.add_argument("--quick", action="store_true", help="a small part of the data, two rounds")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every operation, the contenders in turn, on all cores."""
    facts = machine_facts(["penstock", "aiofiles"])
    rounds, scale = (min(options.rounds, 2), QUICK_SCALE) if options.quick else (options.rounds, 1)

    def measure_round(row: tuple[str, Path], name: str) -> Gap:
        operation, folder = row
        command = [sys.executable, str(BENCHMARKS / "file_gaps.py"), "--peer", name]
        command += ["--operation", operation, "--folder", str(folder), "--scale", str(scale)]
        figures = figures_of(command, None, timeout=SECONDS)
        return Gap(figures["gap"], figures["seconds"])

    comparisons: list[Comparison[Gap]] = []
    for operation in options.operations:
        # One folder per operation, so that at most a gigabyte is in use.
        with working_folder(options.folder) as folder:
            comparisons += compare_in_rounds(
                {(NAMES[operation],): (operation, folder)}, CONTENDERS, rounds, measure_round, say
            )
        os.sync()
    method = Method(
        {"rounds": rounds, "scale": scale},
        f"Median of {rounds} rounds with the lowest and highest round, contenders in turn, on all"
        " cores. Files that are read are in the page cache.",
    )
    return PAGE.report(comparisons, facts, method)
