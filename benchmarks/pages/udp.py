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
    in_turns,
    protocol_facts,
    protocol_sentence,
    serving,
)
from benchmarks.measure.comparison import (
    Comparison,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_loops, add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "UDP echo, closed loop"

STYLES = ["protocol", "sock"]
LABELS = ["style", "datagram", "clients"]
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    parser.add_argument(
        "--styles", type=choices("style", STYLES), default=STYLES, help=f"of {','.join(STYLES)}"
    )
    parser.add_argument("--sizes", type=numbers, default=[1024], help="datagram sizes in bytes")
    parser.add_argument("--connections", type=numbers, default=[1, 32], help="clients, e.g. 1,32")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    contenders = [FLOOR, *options.loops]
    comparisons: list[Comparison[Sample]] = []
    for cell in chosen_cells(options):

        def serve(name: str, cell: Cell = cell) -> AbstractContextManager[Loaded]:
            return serving(
                _server(native, name, cell.style), lambda port: _load(native, cell, port), cores
            )

        def report(line: str, cell: Cell = cell) -> None:
            say(f"{', '.join(cell.labels)} clients: {line}")

        outcomes = in_turns(contenders, options, serve, report)
        comparisons.append(Comparison(cell.labels, outcomes))
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    return Report(
        results={
            "page": "udp",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "udp": Chart(
                "UDP echo: requests per second (more is better)",
                "thousand requests / s",
                [metric_panel("datagrams", comparisons, RATE, str)],
            ),
            "udp-cpu": Chart(
                "UDP echo: server CPU per request (less is better)",
                "µs / request",
                [metric_panel("datagrams", comparisons, CPU, str)],
            ),
        },
        failures=own_failures(comparisons),
    )


def chosen_cells(options: argparse.Namespace) -> list[Cell]:
    """All requested combinations."""
    return [
        Cell(style, size, connections)
        for style in options.styles
        for size in options.sizes
        for connections in options.connections
    ]


def _server(native: Path, name: str, style: str) -> list[str]:
    if name == FLOOR:
        return [str(native / "udp_floor")]
    script = str(BENCHMARKS / "udp_server.py")
    return [sys.executable, script, "--loop", name, "--style", style]


def _load(native: Path, cell: Cell, port: str) -> list[str]:
    command = [str(native / "echo_client"), "--udp", port, "--size", str(cell.size)]
    return [*command, "--connections", str(cell.connections)]
