"""TCP echo: five styles of server on each asyncio loop, beside a raw epoll server in C++.

The same client in C++ (``cpp/echo_client.cpp``) loads every server: N connections, one message in
flight on each, every reply compared byte for byte. Server and client have one core each.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample
from benchmarks.measure.closed_loop_page import (
    ClosedLoopPage,
    Comparisons,
    add_cells,
    cells_of,
    first_label,
)
from benchmarks.measure.comparison import Comparison, Metric, metric_panel
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FASTNET_LOOPS, FLOOR, PACKAGES, PYTHON_FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import LABELS, Cell, EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Panel
from benchmarks.measure.processes import Failed
from benchmarks.measure.tables import markdown_table

SUMMARY = "TCP echo, closed loop"

STYLES = ["protocol", "buffered", "streams", "native-streams", "sock"]
SIZES = [1024, 10240]
CONNECTIONS = [32]
# One style suffices to show the effect of large messages and many connections.
FURTHER_CELLS = [Cell("protocol", 102400, 32), Cell("protocol", 1024, 512)]
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "3"]


def _panels(comparisons: Comparisons, metric: Metric[Sample]) -> list[Panel]:
    by_load: dict[tuple[str, ...], list[Comparison[Sample]]] = {}
    for comparison in comparisons:
        by_load.setdefault(comparison.labels[1:], []).append(comparison)
    return [
        metric_panel(f"{size} messages, {connections} connections", group, metric, first_label)
        for (size, connections), group in by_load.items()
    ]


PAGE = ClosedLoopPage(
    name="echo",
    subject="TCP echo",
    labels=LABELS,
    metrics=METRICS,
    charts={"echo": RATE, "echo-cpu": CPU},
    panels=_panels,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_cells(parser, STYLES, STYLES, SIZES, CONNECTIONS, further_loops=FASTNET_LOOPS)
    parser.add_argument(
        "--syscalls",
        action="store_true",
        help="a further pass under strace: system calls per request",
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    stand = EchoStand(build_native(), cores)
    contenders = [FLOOR, PYTHON_FLOOR, *options.loops]
    comparisons: list[Comparison[Sample]] = []
    syscalls: list[dict[str, float]] = []
    for cell in chosen_cells(options):
        comparison = stand.compare(cell, contenders, options, say)
        comparisons.append(comparison)
        if options.syscalls:
            syscalls.append(_syscalls(cell, comparison, stand, say))
    further = []
    if syscalls:
        further = ["System calls per request, from a separate pass under strace:"]
        further += [_syscall_table(comparisons, syscalls, contenders)]
    report = PAGE.report(comparisons, contenders, options, cores, facts, further=further)
    report.results["syscalls_per_request"] = syscalls
    return report


def chosen_cells(options: argparse.Namespace) -> list[Cell]:
    """All requested combinations, plus FURTHER_CELLS unless an option narrows the load."""
    cells = list(cells_of(options))
    if options.sizes == SIZES and options.connections == CONNECTIONS:
        cells += [cell for cell in FURTHER_CELLS if cell.style in options.styles]
    return cells


def _syscalls(
    cell: Cell, comparison: Comparison[Sample], stand: EchoStand, say: Say
) -> dict[str, float]:
    counts = {}
    for name in comparison.outcomes:
        if not comparison.samples(name):
            continue
        try:
            counts[name] = stand.syscalls_a_request(cell, name)
        except Failed as error:
            say(f"{cell}: {name}: under strace: {error}")
        else:
            say(f"{cell}: {name}: {counts[name]:.2f} system calls per request")
    return counts


def _syscall_table(
    comparisons: Sequence[Comparison[Sample]],
    syscalls: Sequence[dict[str, float]],
    contenders: Sequence[str],
) -> str:
    rows = [
        [
            *comparison.labels,
            *(f"{counts[name]:.2f}" if name in counts else "n/a" for name in contenders),
        ]
        for comparison, counts in zip(comparisons, syscalls, strict=True)
    ]
    return markdown_table([*LABELS, *contenders], rows, labels=len(LABELS))
