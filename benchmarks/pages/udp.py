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
from benchmarks.measure.closed_loop import (
    CPU,
    RATE,
    Loaded,
    Sample,
    compare_in_turns,
    serving,
    turns_method,
)
from benchmarks.measure.closed_loop_page import add_cells, bars_of, cells_of
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage, in_panels
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "UDP echo, closed loop"

STYLES = ["protocol", "sock"]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
_BARS = in_panels(str, title=lambda comparison: "datagrams")
PAGE = DeclaredPage(
    name="udp",
    labels=["style", "datagram", "clients"],
    metrics=[RATE, CPU],
    charts={"udp": bars_of("UDP echo", RATE, _BARS), "udp-cpu": bars_of("UDP echo", CPU, _BARS)},
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

    def serve(cell: Cell, name: str) -> AbstractContextManager[Loaded]:
        command = _server(native, name, cell.style)
        return serving(command, lambda port: _load(native, cell, port), cores)

    comparisons = compare_in_turns(
        {cell.labels: cell for cell in cells_of(options)},
        [FLOOR, *options.loops],
        options,
        serve,
        say,
    )
    return PAGE.report(comparisons, facts, turns_method(options, cores))


def _server(native: Path, name: str, style: str) -> list[str]:
    if name == FLOOR:
        return [str(native / "udp_floor")]
    script = str(BENCHMARKS / "udp_server.py")
    return [sys.executable, script, "--loop", name, "--style", style]


def _load(native: Path, cell: Cell, port: str) -> list[str]:
    command = [str(native / "echo_client"), "--udp", port, "--size", str(cell.size)]
    return [*command, "--connections", str(cell.connections)]
