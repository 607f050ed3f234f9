"""The table of zloop's performance page, row by row: uvloop's own echo benchmark, in our words.

Three client workers, each a process with one blocking connection and one message in flight; 1, 10
and 100 KiB; servers by a protocol, a buffered protocol and streams, written as uvloop's benchmark
has them: the buffered one copies, the streams are not drained. What is ours is the measuring.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU,
    RATE,
    Sample,
    protocol_facts,
    protocol_sentence,
)
from benchmarks.measure.comparison import (
    Comparison,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.echo_stand import Cell, EchoStand, size_name
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_loops, add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "uvloop's echo benchmark, as on zloop's performance page"

# The server modes' names in that benchmark, and the styles of the echo server that they are.
MODES = {"proto": "protocol", "buffered": "buffered-copy", "streams": "streams-undrained"}
SIZES = [1024, 10240, 102400]
WORKERS = 3
METRICS = [RATE, CPU]
LABELS = ["message", "server mode"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(MODES)
    add_loops(parser)
    parser.add_argument(
        "--modes", type=choices("mode", known), default=known, help=f"of {','.join(known)}"
    )
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--workers", type=int, default=WORKERS, help="client processes (3)")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every row, its contenders in turn."""
    facts = machine_facts(PACKAGES)
    shorten_if_quick(options)
    stand = EchoStand(build_native(), cores, load="echo_workers")
    contenders = [FLOOR, *options.loops]

    def compare(size: int, mode: str) -> Comparison[Sample]:
        cell = Cell(MODES[mode], size, options.workers)
        measured = stand.compare(cell, contenders, options, say)
        return Comparison((size_name(size), mode), measured.outcomes)

    comparisons = [compare(size, mode) for size in options.sizes for mode in options.modes]
    parts = [
        describe(facts),
        f"{protocol_sentence(options)} {options.workers} client workers.",
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons, label=1),
    ]
    panels = [
        metric_panel(
            f"{size_name(size)} messages",
            [each for each in comparisons if each.labels[0] == size_name(size)],
            RATE,
            lambda comparison: comparison.labels[1],
        )
        for size in options.sizes
    ]
    return Report(
        results={
            "page": "uvloop_bench",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "workers": options.workers,
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "uvloop_bench": Chart(
                "uvloop's echo benchmark: requests a second (more is better)",
                "thousand requests / s",
                panels,
            )
        },
        failures=own_failures(comparisons),
    )
