"""A short HTTP response in C++: penstock::http, Boost.Beast, uWebSockets and Bun.

N keep-alive connections with one request in flight on each, from two loads in turn: the project's
own (``cpp/http_client.cpp``), which compares every reply, and wrk (Debian: ``wrk``), which others
use. Server and client have one core each. All servers send Date, Content-Type and Content-Length.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU_WITHOUT_FLOOR,
    LATENCIES,
    RATE,
    Loaded,
    Sample,
    compare_in_turns,
    serving,
    turns_method,
)
from benchmarks.measure.closed_loop_page import bars_of
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import CLANG
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage, in_panels
from benchmarks.measure.library_stand import add_libraries, uwebsockets_version
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS, build_libraries
from benchmarks.measure.options import add_choices, add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.peers import bun_command, bun_version

SUMMARY = "C++ libraries: HTTP hello, keep-alive, closed loop"

LIBRARIES = [OURS, "beast", "uwebsockets", "bun"]
LOADS = ["own", "wrk"]
CONNECTIONS = [1, 32]
HELLO = "Hello, world!"
WRK_TURNS = 4  # wrk takes whole seconds, so it gets a part of the turns
P50 = replace(LATENCIES[0], heading="Round trip, µs, median (less is better):")
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "6", "--libraries", "penstock", "--loads", "own"]
PAGE = DeclaredPage(
    name="cpp_http",
    labels=["load", "connections"],
    metrics=[CPU_WITHOUT_FLOOR, RATE, P50],
    charts={"cpp_http": bars_of("C++ HTTP hello", CPU_WITHOUT_FLOOR, in_panels(str))},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, LIBRARIES)
    add_choices(parser, "--loads", "load", LOADS)
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS, help="e.g. 1,32")
    add_turns(parser)


def server_command(native: Path, name: str) -> list[str]:
    """The command of a server.

    Raises:
        Unavailable: if Bun is not there.
    """
    if name == "bun":
        return bun_command("http_server.js")
    return [str(native / f"http_{name}")]


def load_command(native: Path, load: str, port: str, connections: int) -> Sequence[str]:
    """The command of a load."""
    addressed = ["--port", port, "--connections", str(connections)]
    if load == "wrk":
        return [sys.executable, str(BENCHMARKS / "wrk_load.py"), *addressed]
    return [str(native / "http_client"), *addressed, "--body", HELLO]


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each load and number of connections, the libraries in turn."""
    facts = machine_facts(
        [],
        libraries=["libboost1.81-dev", "wrk"],
        further={"uWebSockets": uwebsockets_version(), "bun": bun_version()},
        compiler=CLANG,
    )
    shorten_if_quick(options)
    native = build_libraries()

    def serve(row: tuple[str, int], name: str) -> AbstractContextManager[Loaded]:
        command = server_command(native, name)
        return serving(command, lambda port: load_command(native, row[0], port, row[1]), cores)

    comparisons: list[Comparison[Sample]] = []
    lacking = []
    for load in options.loads:
        turns = options.turns if load == "own" else max(1, options.turns // WRK_TURNS)
        if load == "wrk" and not shutil.which("wrk"):
            lacking.append("Without wrk, which is not installed; scripts/setup bench installs it.")
            continue
        comparisons += compare_in_turns(
            {(load, str(connections)): (load, connections) for connections in options.connections},
            options.libraries,
            argparse.Namespace(**{**vars(options), "turns": turns}),
            serve,
            say,
        )
    load_is = ["wrk: a quarter of the turns, each of at least 1 s.", *lacking]
    return PAGE.report(comparisons, facts, turns_method(options, cores, "\n\n".join(load_is)))
