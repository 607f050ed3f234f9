"""A WebSocket server in C++ made faster step by step: the table of a published comparison.

That comparison shows what TCP_NODELAY, one write for header and payload, buffers that are kept, and
unmasking by words gave its server. ``cpp/libraries/websocket_steps.cpp`` takes the same steps on
Penstock's TCP streams, so that each can be seen by itself; ``penstock`` is `ws::Server`.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU_WITHOUT_FLOOR, Loaded, Sample, run_load
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import masked_frame_size, size_name
from benchmarks.measure.library_stand import add_libraries, library_facts
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import numbers
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import Unavailable, server
from benchmarks.measure.rounds import alternate

SUMMARY = "C++: a WebSocket server made faster step by step"

ORIGINAL = "original"
STEPS = [ORIGINAL, "no_delay", "one_write", "buffers", "words"]
SIZES = [64, 1024, 4096, 65536]
MESSAGES = [10, 100, 1000]
LABELS = ["message", "messages"]
WARM_UP = 0.05  # seconds
SETTLING_REQUESTS = 10
MOST_WITH_NAGLE = 100  # messages of the server that waits 44 ms for each

WALL: Metric[Sample] = Metric(
    "wall_us_per_message",
    "Wall clock, µs for a message and its reply (less is better):",
    lambda sample: sample.seconds / sample.requests * 1e6,
    digits=1,
    more_is_better=False,
)
METRICS = [WALL, CPU_WITHOUT_FLOOR]
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, [OURS, *STEPS])
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--messages", type=numbers, default=MESSAGES, help="e.g. 10,100,1000")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (5)")
    parser.add_argument("--quick", action="store_true", help="one round of 10 messages")


def _round(native: str, name: str, size: int, count: int, cores: Cores) -> Sample:
    if name == ORIGINAL and count > MOST_WITH_NAGLE:
        raise Unavailable("with Nagle's algorithm each message takes about 44 ms")
    load, content = "websocket_client", size
    if name == FLOOR:
        command, load, content = [f"{native}/echo_floor"], "echo_client", masked_frame_size(size)
    elif name == OURS:
        command = [f"{native}/websocket_penstock"]
    else:
        command = [f"{native}/websocket_steps", name]
    with server(command, cores.server) as running:
        client = [f"{native}/{load}", "--port", running.ready_line]
        client += ["--size", str(content), "--connections", "1"]
        run_load(client, cores, "--requests", SETTLING_REQUESTS, "--warmup", 0)
        return Loaded(running, client, cores).load("--requests", count, warmup=WARM_UP)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of messages, the steps in turn."""
    facts = library_facts([], [])
    if options.quick:
        options.rounds, options.messages = 1, options.messages[:1]
    native = str(build_libraries())
    contenders = [FLOOR, *options.libraries]

    def compare(size: int, count: int) -> Comparison[Sample]:
        outcomes = alternate(
            contenders,
            options.rounds,
            lambda name: _round(native, name, size, count, cores),
            report=lambda line: say(f"{size_name(size)} x {count}: {line}"),
        )
        return Comparison((size_name(size), str(count)), outcomes)

    comparisons = [compare(size, count) for size in options.sizes for count in options.messages]
    panel = metric_panel("", comparisons, CPU_WITHOUT_FLOOR, lambda each: " x ".join(each.labels))
    return Report(
        results={
            "page": "cpp_websocket_steps",
            "machine": facts,
            "protocol": {
                "rounds": options.rounds,
                "server_core": cores.server,
                "client_core": cores.client,
            },
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(
            [
                describe(facts),
                f"Median of {options.rounds} rounds with the lowest and highest round; servers in"
                " turn, server and client on one core each, each reply compared before the next"
                " message.",
                *metric_tables(comparisons, LABELS, contenders, METRICS),
                *missing_list(comparisons),
            ]
        ),
        charts={
            "cpp_websocket_steps": Chart(
                "C++ WebSocket echo, one connection: server CPU (less is better)",
                "µs / message",
                [panel],
            )
        },
        failures=own_failures(comparisons),
    )
