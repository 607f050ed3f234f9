"""TCP echo in C++: penstock::penstock, Asio (coroutines, callbacks) and libuv, beside raw epoll.

The client is the echo page's: N connections, one message in flight on each, every reply compared
byte for byte. Server and client have one core each. One compiler builds all programs.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, Sample, turns_method
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.library_stand import (
    ECHO,
    ECHO_LIBRARIES,
    LibraryStand,
    add_library_cells,
    compare_library_cells,
    library_facts,
    library_page,
)
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "C++ libraries: TCP echo, closed loop"

SIZES = [64, 1024, 10240, 65536]
CONNECTIONS = [32, 512]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "6"]
PAGE = library_page("cpp_echo", "C++ TCP echo")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_library_cells(parser, ECHO_LIBRARIES, SIZES, CONNECTIONS)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of connections, the libraries in turn."""
    facts = library_facts(options.libraries)
    shorten_if_quick(options)
    stand = LibraryStand(build_libraries(), cores)
    comparisons = compare_library_cells(stand, ECHO, options, say)
    return PAGE.report(comparisons, facts, turns_method(options, cores))
