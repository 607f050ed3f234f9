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
from pathlib import Path

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
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import CLANG
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.library_stand import uwebsockets_version
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_libraries
from benchmarks.measure.options import add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.peers import bun_command, bun_version
from benchmarks.measure.plots import Chart

SUMMARY = "C++ libraries: HTTP hello, keep-alive, closed loop"

LIBRARIES = [OURS, "beast", "uwebsockets", "bun"]
LOADS = ["own", "wrk"]
CONNECTIONS = [1, 32]
HELLO = "Hello, world!"
WRK_TURNS = 4  # wrk takes whole seconds, so it gets a part of the turns
LABELS = ["load", "connections"]

P50: Metric[Sample] = Metric(
    "latency_p50_us",
    "Round trip, µs, median (less is better):",
    lambda sample: sample.latency_p50_us,
    digits=1,
    more_is_better=False,
)
METRICS = [CPU_WITHOUT_FLOOR, RATE, P50]
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "6", "--libraries", "penstock", "--loads", "own"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    for name, singular, known in (
        ("libraries", "library", LIBRARIES),
        ("loads", "load", LOADS),
    ):
        parser.add_argument(
            f"--{name}", type=choices(singular, known), default=known, help=f"of {','.join(known)}"
        )
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
    loads = [load for load in options.loads if load != "wrk" or shutil.which("wrk")]

    def compare(load: str, connections: int) -> Comparison[Sample]:
        def serve(name: str) -> AbstractContextManager[Loaded]:
            return serving(
                server_command(native, name),
                lambda port: load_command(native, load, port, connections),
                cores,
            )

        turns = options.turns if load == "own" else max(1, options.turns // WRK_TURNS)
        outcomes = in_turns(
            options.libraries,
            argparse.Namespace(**{**vars(options), "turns": turns}),
            serve,
            report=lambda line: say(f"{load}, {connections}: {line}"),
        )
        return Comparison((load, str(connections)), outcomes)

    comparisons = [
        compare(load, connections) for load in loads for connections in options.connections
    ]
    parts = [
        describe(facts),
        f"{protocol_sentence(options)} wrk: a quarter of the turns, each of at least 1 s.",
        *(
            f"Without {load}, which is not installed; scripts/setup bench installs it."
            for load in options.loads
            if load not in loads
        ),
        *metric_tables(comparisons, LABELS, options.libraries, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel(
        "", comparisons, CPU_WITHOUT_FLOOR, lambda each: f"{each.labels[0]}, {each.labels[1]}"
    )
    return Report(
        results={
            "page": "cpp_http",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "cpp_http": Chart(
                "C++ HTTP hello: server CPU per request (less is better)",
                "µs / request",
                [panel],
            )
        },
        failures=own_failures(comparisons),
    )
