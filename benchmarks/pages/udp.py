"""UDP echo: two styles of server on each asyncio loop, beside a raw epoll server in C++.

The echo page's client loads every server: N sockets, one datagram in flight on each, every reply
compared byte for byte. The datagrams in flight are so few and small that none should be lost; a
lost one ends the round.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Loaded, Sample, in_turns, serving
from benchmarks.measure.closed_loop_page import ClosedLoopPage, add_cells, cells_of, one_panel
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "UDP echo, closed loop"

STYLES = ["protocol", "sock"]
LABELS = ["style", "datagram", "clients"]
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
PAGE = ClosedLoopPage(
    name="udp",
    subject="UDP echo",
    labels=LABELS,
    metrics=METRICS,
    charts={"udp": RATE, "udp-cpu": CPU},
    panels=one_panel(str, title="datagrams"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_cells(
        parser,
        STYLES,
        STYLES,
        [1024],
        [1, 32],
        sizes_are="datagram sizes in bytes",
        connections_are="clients, e.g. 1,32",
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    contenders = [FLOOR, *options.loops]
    comparisons: list[Comparison[Sample]] = []
    for cell in cells_of(options):

        def serve(name: str, cell: Cell = cell) -> AbstractContextManager[Loaded]:
            return serving(
                _server(native, name, cell.style), lambda port: _load(native, cell, port), cores
            )

        def report(line: str, cell: Cell = cell) -> None:
            say(f"{', '.join(cell.labels)} clients: {line}")

        outcomes = in_turns(contenders, options, serve, report)
        comparisons.append(Comparison(cell.labels, outcomes))
    return PAGE.report(comparisons, contenders, options, cores, facts)


def _server(native: Path, name: str, style: str) -> list[str]:
    if name == FLOOR:
        return [str(native / "udp_floor")]
    script = str(BENCHMARKS / "udp_server.py")
    return [sys.executable, script, "--loop", name, "--style", style]


def _load(native: Path, cell: Cell, port: str) -> list[str]:
    command = [str(native / "echo_client"), "--udp", port, "--size", str(cell.size)]
    return [*command, "--connections", str(cell.connections)]
