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
    compare_in_turns,
    turns_method,
)
from benchmarks.measure.comparison import Metric
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.echo_stand import Cell, size_name
from benchmarks.measure.library_stand import (
    BLOCKING,
    LIBRARIES,
    SOURCE,
    LibraryStand,
    add_libraries,
    library_facts,
)
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import server
from benchmarks.measure.sanity import check_clocks

SUMMARY = "C++ libraries: one-way throughput"

SIZES = [64, 1024, 4096, 65536]
LEAST_SECONDS = 0.1e-6  # a system call alone takes more
MESSAGES: Metric[Sample] = Metric(
    RATE.key, "Thousand messages per second (more is better):", RATE.value, digits=1, scale=1e3
)
COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "6"]
PAGE = DeclaredPage(
    name="cpp_stream",
    labels=["message"],
    metrics=[MESSAGES, CPU_WITHOUT_FLOOR],
    charts={
        "cpp_stream": Bars("C++ one-way TCP (more is better)", "thousand messages / s", MESSAGES)
    },
)


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

    @contextmanager
    def serve(size: int, name: str) -> Iterator[Loaded]:
        cell = Cell(SOURCE, size, 1)
        with server(stand.source_command(name, cell), cores.server) as running:
            yield Loaded(running, stand.load_command(cell, running.ready_line), cores, _check)

    comparisons = compare_in_turns(
        {(size_name(size),): size for size in options.sizes},
        [FLOOR, *options.libraries],
        options,
        serve,
        say,
    )
    return PAGE.report(comparisons, facts, turns_method(options, cores))


def _check(*, requests: int, **clocks: Any) -> None:
    check_clocks(operations=requests, least_seconds=LEAST_SECONDS, **clocks)
