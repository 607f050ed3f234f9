"""WebSocket echo in Python: penstock.websocket beside picows, its websockets, websockets, aiohttp.

The load (``cpp/websocket_client.cpp``) keeps its connections open with one binary message in flight
on each, and compares every reply byte for byte. Compression is off. The floor is raw epoll, which
returns as many bytes as a client's frame has.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager

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
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import masked_frame_size
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.websocket_server import SERVERS

SUMMARY = "WebSocket echo in Python, closed loop"

METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4", "--servers", "penstock"]
LABELS = ["message"]
SIZES = [256, 8192]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(SERVERS)
    parser.add_argument(
        "--servers", type=choices("server", known), default=known, help=f"of {','.join(known)}"
    )
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
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

    contenders = [FLOOR, *options.servers]

    def compare(size: int) -> Comparison[Sample]:
        def serve(name: str) -> AbstractContextManager[Loaded]:
            client, bytes_each = "websocket_client", size
            server = [sys.executable, script, "--server", name]
            if name == FLOOR:
                client, bytes_each = "echo_client", masked_frame_size(size)
                server = [str(native / "echo_floor")]

            def load(port: str) -> list[str]:
                command = [str(native / client), "--port", port, "--size", str(bytes_each)]
                return [*command, "--connections", str(options.connections)]

            return serving(server, load, cores)

        outcomes = in_turns(
            contenders, options, serve, report=lambda line: say(f"{size} B: {line}")
        )
        return Comparison((f"{size} B",), outcomes)

    comparisons = [compare(size) for size in options.sizes]
    parts = [
        describe(facts),
        f"{protocol_sentence(options)} {options.connections} connections, no compression.",
        *metric_tables(comparisons, LABELS, contenders, METRICS),
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
