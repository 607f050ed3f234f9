"""One-way throughput in C++: messages of one size, one write each, without a pause.

The same reader serves all libraries. It checks and counts every byte. The floor is a loop of
send(2).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU_WITHOUT_FLOOR,
    RATE,
    Loaded,
    Sample,
    in_turns,
    protocol_facts,
    protocol_sentence,
)
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
from benchmarks.measure.echo_stand import Cell, size_name
from benchmarks.measure.library_stand import (
    BLOCKING,
    LIBRARIES,
    SOURCE,
    LibraryStand,
    add_libraries,
    library_facts,
)
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import server
from benchmarks.measure.sanity import check_clocks

SUMMARY = "C++ libraries: one-way throughput"

SIZES = [64, 1024, 4096, 65536]
LABELS = ["message"]
LEAST_SECONDS = 0.1e-6  # a system call alone takes more
MESSAGES: Metric[Sample] = Metric(
    RATE.key, "Thousand messages per second (more is better):", RATE.value, digits=1, scale=1e3
)
METRICS = [MESSAGES, CPU_WITHOUT_FLOOR]
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "6"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, [*LIBRARIES, BLOCKING])
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size, the libraries in turn."""
    facts = library_facts(options.libraries)
    shorten_if_quick(options)
    stand = LibraryStand(build_libraries(), cores, load="stream_sink")
    contenders = [FLOOR, *options.libraries]
    comparisons = [_compare(stand, size, contenders, options, say) for size in options.sizes]
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, MESSAGES, lambda each: each.labels[0])
    return Report(
        results={
            "page": "cpp_stream",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "cpp_stream": Chart(
                "C++ one-way TCP (more is better)", "thousand messages / s", [panel]
            )
        },
        failures=own_failures(comparisons),
    )


def _compare(
    stand: LibraryStand,
    size: int,
    contenders: list[str],
    options: argparse.Namespace,
    say: Say,
) -> Comparison[Sample]:
    cell = Cell(SOURCE, size, 1)
    outcomes = in_turns(
        contenders,
        options,
        lambda name: _serving(stand, cell, name),
        report=lambda line: say(f"{size_name(size)}: {line}"),
    )
    return Comparison((size_name(size),), outcomes)


@contextmanager
def _serving(stand: LibraryStand, cell: Cell, name: str) -> Iterator[Loaded]:
    with server(stand.source_command(name, cell), stand.cores.server) as running:
        load = stand.load_command(cell, running.ready_line)
        yield Loaded(running, load, stand.cores, _check)


def _check(*, requests: int, **clocks: Any) -> None:
    check_clocks(operations=requests, least_seconds=LEAST_SECONDS, **clocks)
