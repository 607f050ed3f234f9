"""A short response of an ASGI application, by Penstock's server and by uvicorn with httptools.

The load (``cpp/http_client.cpp``) keeps its connections alive with one request in flight on each,
and compares every reply byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager

from benchmarks.asgi_server import SERVERS
from benchmarks.http_server import HELLO
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
from benchmarks.measure.contenders import PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_turns, choices, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "ASGI hello, keep-alive, closed loop"

METRICS = [RATE, CPU_WITHOUT_FLOOR]
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
LABELS = ["load"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(SERVERS)
    parser.add_argument(
        "--servers", type=choices("server", known), default=known, help=f"of {','.join(known)}"
    )
    parser.add_argument("--connections", type=int, default=32, help="connections (32)")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the servers in turn."""
    facts = machine_facts([*PACKAGES, "uvicorn", "httptools"], compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    script = str(BENCHMARKS / "asgi_server.py")

    def load(port: str) -> list[str]:
        command = [str(native / "http_client"), "--port", port, "--body", HELLO]
        return [*command, "--connections", str(options.connections)]

    def serve(name: str) -> AbstractContextManager[Loaded]:
        return serving([sys.executable, script, "--server", name], load, cores)

    label = f"hello, {options.connections} connections"
    outcomes = in_turns(options.servers, options, serve, report=say)
    comparisons = [Comparison((label,), outcomes)]
    parts = [
        describe(facts),
        f"{protocol_sentence(options)} {options.connections} connections, kept alive.",
        *metric_tables(comparisons, LABELS, options.servers, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda comparison: comparison.labels[0])
    return Report(
        results={
            "page": "asgi",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "connections": options.connections,
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "asgi": Chart(
                "ASGI hello: requests per second (more is better)", "thousand requests / s", [panel]
            )
        },
        failures=own_failures(comparisons),
    )
