"""TCP echo: five styles of server on each asyncio loop, beside a raw epoll server in C++.

The same client in C++ (``cpp/echo_client.cpp``) loads every server: N connections, one message in
flight on each, every reply compared byte for byte. Server and client have one core each.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, turns_method
from benchmarks.measure.closed_loop_page import add_cells, bars_of, cells_of
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FASTNET_LOOPS, FLOOR, PACKAGES, PYTHON_FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage, first_label, in_panels
from benchmarks.measure.echo_stand import LABELS, Cell, EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import Failed
from benchmarks.measure.syscalls import calls_table

SUMMARY = "TCP echo, closed loop"

STYLES = ["protocol", "buffered", "streams", "native-streams", "sock"]
SIZES = [1024, 10240]
CONNECTIONS = [32]
# One style suffices to show the effect of large messages and many connections.
FURTHER_CELLS = [Cell("protocol", 102400, 32), Cell("protocol", 1024, 512)]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "3"]
_BY_LOAD = in_panels(
    first_label, title=lambda each: f"{each.labels[1]} messages, {each.labels[2]} connections"
)
PAGE = DeclaredPage(
    name="echo",
    labels=LABELS,
    metrics=[RATE, CPU],
    charts={
        "echo": bars_of("TCP echo", RATE, _BY_LOAD),
        "echo-cpu": bars_of("TCP echo", CPU, _BY_LOAD),
    },
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
        rows = [comparison.labels for comparison in comparisons]
        further += [calls_table(LABELS, rows, syscalls, contenders)]
    report = PAGE.report(comparisons, facts, turns_method(options, cores), further=further)
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
