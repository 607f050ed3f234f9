"""Unix-socket echo: the echo page's servers, load and floor on Unix sockets."""

from __future__ import annotations

import argparse

from benchmarks.echo_server import STYLES
from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, protocol_facts, protocol_sentence
from benchmarks.measure.comparison import (
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES, PYTHON_FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import LABELS, Cell, EchoStand
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_loops, add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "Unix-socket echo, closed loop"

METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    parser.add_argument(
        "--styles",
        type=choices("style", list(STYLES)),
        default=["protocol", "streams", "native-streams"],
        help=f"of {','.join(STYLES)}",
    )
    parser.add_argument("--sizes", type=numbers, default=[1024], help="message sizes in bytes")
    parser.add_argument("--connections", type=numbers, default=[32], help="e.g. 3,32")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every style, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    stand = EchoStand(build_native(), cores, unix=True)
    contenders = [FLOOR, PYTHON_FLOOR, *options.loops]
    comparisons = [
        stand.compare(Cell(style, size, connections), contenders, options, say)
        for style in options.styles
        for size in options.sizes
        for connections in options.connections
    ]
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, RATE, lambda comparison: comparison.labels[0])
    return Report(
        results={
            "page": "unix",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "unix": Chart(
                "Unix-socket echo: requests per second (more is better)",
                "thousand requests / s",
                [panel],
            )
        },
        failures=own_failures(comparisons),
    )
