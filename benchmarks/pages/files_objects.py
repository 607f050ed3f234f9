"""File objects: what an open file costs, call by call, beside the built-in ``open``.

Each contender is a separate process (``benchmarks/file_objects.py``), in turn. The built-in's calls
block, the others are awaited, on asyncio's own loop unless the name tells another. pyuring has no
file object: see the page files_pyuring. CPU time is compared, which counts worker threads too.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.file_objects import WORKS
from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric, compare_in_rounds
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.file_stand import working_folder
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import figures_of

SUMMARY = "File objects: open, read, close, lines and questions beside the built-in open"

CONTENDERS = [
    *("built-in", OURS, f"{OURS}@asyncio", f"{OURS}@uvloop"),
    *("aiofiles", "aiofiles@uvloop", f"aiofiles@{OURS}", "anyio", "aiofile", "caio"),
]
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
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--work", "open-read-close,iterate-bytes,iterate-text,readlines-text,stat"]
PAGE = DeclaredPage(
    name="files_objects",
    labels=["work"],
    metrics=[CPU, WALL],
    charts={"files_objects": Bars("CPU time of a call (less is better)", "µs", CPU)},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_choices(parser, "--work", "work", WORKS)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each contender (7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each round (0.3)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (build/)")
    parser.add_argument("--quick", action="store_true", help="two short rounds")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every kind of work, the contenders in turn, on all cores."""
    facts = machine_facts(["penstock", "aiofiles", "anyio", "aiofile", "caio", "uvloop"])
    rounds = min(options.rounds, 2) if options.quick else options.rounds
    seconds = QUICK_SECONDS if options.quick else options.seconds
    with working_folder(options.folder) as folder:

        def measure_round(work: str, name: str) -> Sample:
            command = [sys.executable, str(BENCHMARKS / "file_objects.py"), "--peer", name]
            command += ["--work", work, "--folder", str(folder), "--seconds", str(seconds)]
            figures = figures_of(command, None, timeout=TIMEOUT)
            return Sample(figures["cpu_us"], figures["wall_us"])

        comparisons = compare_in_rounds(
            {(NAMES[work],): work for work in options.work}, CONTENDERS, rounds, measure_round, say
        )
    method = Method(
        {"rounds": rounds, "seconds": seconds},
        f"Median of {rounds} rounds of {seconds:g} s with the lowest and highest round, contenders"
        " in turn, on all cores. Everything that is read is in the page cache.",
    )
    return PAGE.report(comparisons, facts, method)
