"""TCP echo in C++: penstock::penstock, Asio (coroutines, callbacks) and libuv, beside raw epoll.

The client is the echo page's: N connections, one message in flight on each, every reply compared
byte for byte. Server and client have a core each; all programs are built by one compiler.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, protocol_facts, protocol_sentence
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.library_stand import ECHO, LibraryStand, add_libraries
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "C++ libraries: TCP echo, closed loop"

SIZES = [64, 1024, 10240, 65536]
CONNECTIONS = [32, 512]
LABELS = ["message", "connections"]
CPU_TO_PEER: Metric[Sample] = Metric(
    "server_cpu_us_per_request_to_peer",
    "The same CPU, beside the best peer:",
    CPU.value,
    CPU.digits,
    more_is_better=False,
)
METRICS = [RATE, CPU, CPU_TO_PEER]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS, help="e.g. 32,512")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of connections, the libraries in turn."""
    facts = machine_facts([])
    shorten_if_quick(options)
    stand = LibraryStand(build_libraries(), cores)
    contenders = [FLOOR, *options.libraries]
    comparisons = []
    for connections in options.connections:
        for size in options.sizes:
            comparison = stand.compare(Cell(ECHO, size, connections), contenders, options, say)
            comparisons.append(Comparison(comparison.labels[1:], comparison.outcomes))
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, CPU, lambda each: f"{each.labels[0]}, {each.labels[1]}")
    return Report(
        results={
            "page": "cpp_echo",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "cpp_echo": Chart(
                "C++ TCP echo: server CPU a request (less is better)", "µs / request", [panel]
            )
        },
        failures=own_failures(comparisons),
    )
