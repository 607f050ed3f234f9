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
    compare_in_turns,
    serving,
    turns_method,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.echo_stand import masked_frame_size
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_choices, add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.websocket_server import SERVERS

SUMMARY = "WebSocket echo in Python, closed loop"

SIZES = [256, 8192]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4", "--servers", "penstock"]
PAGE = DeclaredPage(
    name="websocket",
    labels=["message"],
    metrics=[RATE, CPU],
    charts={
        "websocket": Bars(
            "WebSocket echo in Python: messages per second (more is better)",
            "thousand messages / s",
            RATE,
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_choices(parser, "--servers", "server", SERVERS)
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

    def serve(size: int, name: str) -> AbstractContextManager[Loaded]:
        script = str(BENCHMARKS / "websocket_server.py")
        server, client = [sys.executable, script, "--server", name], "websocket_client"
        if name == FLOOR:
            server, client = [str(native / "echo_floor")], "echo_client"
            size = masked_frame_size(size)
        load = ["--size", str(size), "--connections", str(options.connections)]
        return serving(server, lambda port: [str(native / client), "--port", port, *load], cores)

    comparisons = compare_in_turns(
        {(f"{size} B",): size for size in options.sizes},
        [FLOOR, *options.servers],
        options,
        serve,
        say,
    )
    load = f"{options.connections} connections, no compression."
    return PAGE.report(
        comparisons,
        facts,
        turns_method(options, cores, load),
        conditions={"connections": options.connections},
    )
