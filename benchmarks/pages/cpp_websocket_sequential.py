"""Sequential WebSocket messages on one connection: the rows of a published comparison.

That comparison sends 10, 100 and 1000 messages of 64 B to 64 KiB, one after the other, and derives
bytes per second from the same runs; its messages of 64 B are also texts. Here the server and its
load are processes with one core each, and each reply is compared byte for byte before the next
message is sent.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU_WITHOUT_FLOOR, LATENCIES, Sample
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import size_name
from benchmarks.measure.library_stand import add_libraries
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import numbers
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.rounds import alternate
from benchmarks.pages.cpp_websocket import LIBRARIES, Stand, websocket_facts

SUMMARY = "C++ libraries: sequential WebSocket messages on one connection"

SIZES = [64, 1024, 4096, 65536]
TEXT_SIZES = [64]
MESSAGES = [10, 100, 1000]
LABELS = ["message", "messages"]
WARM_UP = 0.05  # seconds

WALL: Metric[Sample] = Metric(
    "wall_us_per_message",
    "Wall clock, µs for a message and its reply (less is better):",
    lambda sample: sample.seconds / sample.requests * 1e6,
    digits=1,
    more_is_better=False,
)
METRICS = [WALL, CPU_WITHOUT_FLOOR, *LATENCIES]
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, LIBRARIES)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--messages", type=numbers, default=MESSAGES, help="e.g. 10,100,1000")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each (7)")
    parser.add_argument("--quick", action="store_true", help="2 rounds")


def cells_of(sizes: Sequence[int], messages: Sequence[int]) -> list[tuple[int, int, bool]]:
    """Size, number of messages, and whether they are texts: binary messages, then texts."""
    return [
        (size, count, text)
        for text in (False, True)
        for size in sizes
        if not text or size in TEXT_SIZES
        for count in messages
    ]


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of messages, the libraries in turn."""
    facts = websocket_facts()
    if options.quick:
        options.rounds = min(options.rounds, 2)
    stand = Stand(str(build_libraries()), cores)
    contenders = [FLOOR, *options.libraries]

    def measure_round(name: str, size: int, messages: int, *, text: bool) -> Sample:
        with stand.serving(name, size, 1, text=text) as loaded:
            return loaded.load("--requests", messages, warmup=WARM_UP)

    def compare(size: int, messages: int, *, text: bool) -> Comparison[Sample]:
        what = f"{size_name(size)}{', text' if text else ''}"
        outcomes = alternate(
            contenders,
            options.rounds,
            lambda name: measure_round(name, size, messages, text=text),
            report=lambda line: say(f"{what} x {messages}: {line}"),
        )
        return Comparison((what, str(messages)), outcomes)

    comparisons = [
        compare(size, messages, text=text)
        for size, messages, text in cells_of(options.sizes, options.messages)
    ]
    longest = [each for each in comparisons if each.labels[1] == str(max(options.messages))]
    panel = metric_panel("", comparisons, WALL, lambda each: " x ".join(each.labels))
    return Report(
        results={
            "page": "cpp_websocket_sequential",
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
                *metric_tables(comparisons, LABELS, contenders, [WALL, CPU_WITHOUT_FLOOR]),
                *metric_tables(longest, LABELS, contenders, LATENCIES),
                *missing_list(comparisons),
            ]
        ),
        charts={
            "cpp_websocket_sequential": Chart(
                "C++ WebSocket echo, one connection (less is better)", "µs / message", [panel]
            )
        },
        failures=own_failures(comparisons),
    )
