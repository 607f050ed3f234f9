"""WebSocket echo in Python: penstock.websocket beside picows, websockets and aiohttp.

The load (``cpp/websocket_client.cpp``) keeps its connections open with one binary message in flight
on each, and compares every reply byte for byte. Compression is off.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU_WITHOUT_FLOOR,
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
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_turns, choices, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.websocket_server import SERVERS

SUMMARY = "WebSocket echo in Python, closed loop"

METRICS = [RATE, CPU_WITHOUT_FLOOR]
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "4", "--servers", "penstock"]
LABELS = ["message"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(SERVERS)
    parser.add_argument(
        "--servers", type=choices("server", known), default=known, help=f"of {','.join(known)}"
    )
    parser.add_argument("--sizes", default="256,8192", help="bytes of a message (256,8192)")
    parser.add_argument("--connections", type=int, default=32, help="connections (32)")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each size, the servers in turn."""
    facts = machine_facts(
        ["penstock", "picows", "websockets", "aiohttp", "uvloop"], compiler=SYSTEM
    )
    shorten_if_quick(options)
    native = build_native()
    script = str(BENCHMARKS / "websocket_server.py")

    def compare(size: str) -> Comparison[Sample]:
        def load(port: str) -> list[str]:
            command = [str(native / "websocket_client"), "--port", port, "--size", size]
            return [*command, "--connections", str(options.connections)]

        def serve(name: str) -> AbstractContextManager[Loaded]:
            return serving([sys.executable, script, "--server", name], load, cores)

        outcomes = in_turns(
            options.servers, options, serve, report=lambda line: say(f"{size} B: {line}")
        )
        return Comparison((f"{size} B",), outcomes)

    comparisons = [compare(size) for size in options.sizes.split(",")]
    parts = [
        describe(facts),
        f"{protocol_sentence(options)} {options.connections} connections, no compression.",
        *metric_tables(comparisons, LABELS, options.servers, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda comparison: comparison.labels[0])
    return Report(
        results={
            "page": "websocket",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "connections": options.connections,
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "websocket": Chart(
                "WebSocket echo in Python: messages per second (more is better)",
                "thousand messages / s",
                [panel],
            )
        },
        failures=own_failures(comparisons),
    )
