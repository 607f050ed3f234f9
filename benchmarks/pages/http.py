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
    compare_in_turns,
    serving,
    turns_method,
)
from benchmarks.measure.closed_loop_page import bars_of
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_choices, add_loops, add_turns, shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "HTTP hello, keep-alive, closed loop"

COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
PAGE = DeclaredPage(
    name="http",
    labels=["framework"],
    metrics=[RATE, CPU_WITHOUT_FLOOR],
    charts={"http": bars_of("HTTP hello", RATE)},
)
NAMES = {"uvicorn": "uvicorn + httptools", "aiohttp": "aiohttp"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    add_choices(parser, "--frameworks", "framework", FRAMEWORKS)
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

    def serve(framework: str, name: str) -> AbstractContextManager[Loaded]:
        command = [sys.executable, script, "--loop", name, "--framework", framework]
        return serving(command, load, cores)

    comparisons = compare_in_turns(
        {(NAMES[framework],): framework for framework in options.frameworks},
        options.loops,
        options,
        serve,
        say,
    )
    return PAGE.report(
        comparisons,
        facts,
        turns_method(options, cores, f"{options.connections} connections, kept alive."),
        conditions={"connections": options.connections},
    )
