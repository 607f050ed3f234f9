"""TCP echo in C++: penstock::penstock, Asio (coroutines, callbacks) and libuv, beside raw epoll.

The client is the echo page's: N connections, one message in flight on each, every reply compared
byte for byte. Server and client have one core each. One compiler builds all programs.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_report import compare_cells, echo_report
from benchmarks.measure.library_stand import (
    ECHO,
    ECHO_LIBRARIES,
    LibraryStand,
    add_libraries,
    library_facts,
)
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "C++ libraries: TCP echo, closed loop"

SIZES = [64, 1024, 10240, 65536]
CONNECTIONS = [32, 512]
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "6"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, ECHO_LIBRARIES)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS, help="e.g. 32,512")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of connections, the libraries in turn."""
    facts = library_facts(options.libraries)
    shorten_if_quick(options)
    comparisons = compare_cells(LibraryStand(build_libraries(), cores), ECHO, options, say)
    return echo_report("cpp_echo", "C++ TCP echo", facts, comparisons, METRICS, options, cores)
