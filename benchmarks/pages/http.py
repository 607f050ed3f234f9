"""A short HTTP response by uvicorn with httptools and by aiohttp, each on each loop.

The load (``cpp/http_client.cpp``) keeps its connections alive with one request in flight on each,
and compares every reply byte for byte. There is no floor: the framework does most of the work.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager

from benchmarks.http_server import FRAMEWORKS, HELLO
from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU_WITHOUT_FLOOR,
    RATE,
    Loaded,
    Sample,
    in_turns,
    serving,
)
from benchmarks.measure.closed_loop_page import ClosedLoopPage, one_panel
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_loops, add_turns, choices, shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "HTTP hello, keep-alive, closed loop"

METRICS = [RATE, CPU_WITHOUT_FLOOR]
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
LABELS = ["framework"]
PAGE = ClosedLoopPage(
    name="http",
    subject="HTTP hello",
    labels=LABELS,
    metrics=METRICS,
    charts={"http": RATE},
    panels=one_panel(),
)
NAMES = {"uvicorn": "uvicorn + httptools", "aiohttp": "aiohttp"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(FRAMEWORKS)
    add_loops(parser)
    parser.add_argument(
        "--frameworks",
        type=choices("framework", known),
        default=known,
        help=f"of {','.join(known)}",
    )
    parser.add_argument("--connections", type=int, default=32, help="connections (32)")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each framework, the loops in turn."""
    facts = machine_facts([*PACKAGES, "uvicorn", "httptools", "aiohttp"], compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    script = str(BENCHMARKS / "http_server.py")

    def load(port: str) -> list[str]:
        command = [str(native / "http_client"), "--port", port, "--body", HELLO]
        return [*command, "--connections", str(options.connections)]

    def compare(framework: str) -> Comparison[Sample]:
        def serve(name: str) -> AbstractContextManager[Loaded]:
            command = [sys.executable, script, "--loop", name, "--framework", framework]
            return serving(command, load, cores)

        outcomes = in_turns(
            options.loops, options, serve, report=lambda line: say(f"{framework}: {line}")
        )
        return Comparison((NAMES[framework],), outcomes)

    comparisons = [compare(framework) for framework in options.frameworks]
    return PAGE.report(
        comparisons,
        options.loops,
        options,
        cores,
        facts,
        load=f"{options.connections} connections, kept alive.",
        conditions={"connections": options.connections},
    )
