"""Files: reads, whole files, small files, a durable log, and the latency of the loop meanwhile.

Each contender is a separate process (``benchmarks/file_io.py``), in turn, on all cores. Worker
threads, including the kernel's for io_uring, are part of the comparison and of the CPU time. The
floor is C++ with liburing and with plain system calls.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    compare_in_rounds,
    missing_list,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, first_label, in_panels
from benchmarks.measure.file_stand import (
    FLOORS,
    FileStand,
    Sample,
    add_stand_options,
    time_metrics,
    working_folder,
)
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_rounds, choices, shorten_if_quick
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.tables import figure, markdown_table

SUMMARY = "Files: reads, whole files, small files, a durable log, latency"

PACKAGES = ["penstock", "pyuring", "uringio", "aiofiles", "anyio", "caio"]
TICKER = "ticker"


@dataclass(frozen=True)
class Row:
    """A row of the table: a workload and its options."""

    label: str
    workload: str
    arguments: tuple[str, ...] = ()


ROWS = {
    row.label: row
    for row in (
        Row("cached 4 KiB reads, 32 in flight", "cached-reads"),
        Row("10,000 files of 4 KiB", "small-files"),
        Row("8 × 2 MiB, whole files: write, read", "write-read", ("--block", "0")),
        Row("8 × 2 MiB, 64 KiB blocks: write, read", "write-read", ("--block", "65536")),
        Row("O_DIRECT 4 KiB reads, 32 in flight", "direct-reads"),
        Row("200 log appends of 1 KiB", "log"),
    )
}
QUICK = {
    "small-files": ("--files", "1000"),
    TICKER: ("--size", str(128 << 20)),
}

METRICS = time_metrics("operation", "per read, file or append", digits=2)
WALL = METRICS[0]
COSTS = [Cost(WALL, Sample)]
# Without the ticker: the latency of its timer is not the cost of an operation.
COMPARISON_OPTIONS = [
    *("--peers", OURS),
    *("--work", ",".join(dict.fromkeys(row.workload for row in ROWS.values()))),
]
PAGE = DeclaredPage(
    name="files",
    labels=["work"],
    metrics=METRICS,
    charts={
        # One panel per row: a cached read and a file of 2 MiB cannot share an axis.
        "files": Bars(
            "Files (less is better)",
            "µs per operation",
            WALL,
            in_panels(lambda comparison: "", title=first_label),
        )
    },
)


@dataclass(frozen=True)
class Lateness:
    """How late the timer was in one round, in milliseconds."""

    p50: float
    p99: float
    worst: float
    write_seconds: float

    def __str__(self) -> str:
        return f"p99 {self.p99:.2f} ms, worst {self.worst:.2f} ms"


LATENESS: list[Metric[Lateness]] = [
    Metric("p50_ms", "Median, ms:", lambda each: each.p50, digits=2, more_is_better=False),
    Metric("p99_ms", "99th percentile, ms:", lambda each: each.p99, digits=2, more_is_better=False),
    Metric("worst_ms", "Worst, ms:", lambda each: each.worst, digits=2, more_is_better=False),
    Metric(
        "write_seconds",
        "Writing took, s:",
        lambda each: each.write_seconds,
        digits=2,
        more_is_better=False,
    ),
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_stand_options(parser)
    parser.add_argument(
        "--work",
        type=choices("workload", [*(row.workload for row in ROWS.values()), TICKER]),
        help="only these workloads",
    )
    add_rounds(parser, rounds=5, seconds=0.5, warmup=0.2)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every row, the contenders in turn."""
    facts = machine_facts(PACKAGES, libraries=["liburing-dev"], compiler=SYSTEM)
    shorten_if_quick(options)
    rows = [row for row in ROWS.values() if not options.work or row.workload in options.work]
    contenders = [*FLOORS, *options.peers]
    latency: list[Comparison[Lateness]] = []
    with working_folder(options.folder) as folder:
        stand = FileStand(folder, build_native(), options)

        def measure_round(row: Row, name: str) -> Sample:
            quick = QUICK.get(row.workload, ()) if options.quick else ()
            return stand.measure(name, row.workload, *row.arguments, *quick)

        comparisons = compare_in_rounds(
            {(row.label,): row for row in rows}, contenders, options.rounds, measure_round, say
        )
        if not options.work or TICKER in options.work:
            latency = compare_in_rounds(
                {("latency",): QUICK[TICKER] if options.quick else ()},
                options.peers,
                min(options.rounds, 3),
                lambda arguments, name: _lateness(stand.lateness(name, *arguments)),
                say,
            )
    further = []
    if comparisons:
        further = ["Penstock's wall time over each contender's (below 1: Penstock is faster):"]
        further += [_ratios(comparisons, [name for name in contenders if name != OURS])]
    if latency:
        further += ["A timer of 1 ms while 1 GiB is written in blocks of 1 MiB on the same loop:"]
        further += [_lateness_table(latency[0], options.peers)]
    method = Method(
        {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "warmup_seconds": options.warmup,
        },
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round, contenders in turn, on all cores.",
    )
    report = PAGE.report(comparisons, facts, method, further=further)
    report.add(*missing_list(latency))
    report.keep("latency", latency, LATENESS)
    return report


def _lateness(figures: dict[str, Any]) -> Lateness:
    late = sorted(figures["lateness"])
    return Lateness(
        p50=late[len(late) // 2] * 1e3,
        p99=late[int(len(late) * 0.99)] * 1e3,
        worst=late[-1] * 1e3,
        write_seconds=figures["seconds"],
    )


def _ratios(comparisons: Sequence[Comparison[Sample]], others: Sequence[str]) -> str:
    def cell(comparison: Comparison[Sample], name: str) -> str:
        ratio = comparison.ours_to(name, WALL)
        return "n/a" if ratio is None else figure(ratio, 2)

    rows = [[each.labels[0], *(cell(each, name) for name in others)] for each in comparisons]
    return markdown_table([*PAGE.labels, *others], rows)


def _lateness_table(comparison: Comparison[Lateness], contenders: Sequence[str]) -> str:
    rows = []
    for name in contenders:
        summaries = [comparison.summary(name, metric) for metric in LATENESS]
        rows.append([name, *("n/a" if each is None else figure(each, 2) for each in summaries)])
    return markdown_table(["late by, ms", "p50", "p99", "worst", "writing, s"], rows)
