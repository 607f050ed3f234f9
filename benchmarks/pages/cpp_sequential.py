"""Sequential round trips on one TCP connection: their time and system calls.

The rows are those of a published comparison of C++ libraries (64 B, 1 KiB and 64 KiB; 100 and 1000
round trips). Here every round trip takes place: server and client are processes with one core each,
and each reply is compared byte for byte before the next message is sent.
"""

from __future__ import annotations

import argparse

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
from benchmarks.measure.echo_stand import Cell, size_name
from benchmarks.measure.library_stand import (
    BLOCKING,
    ECHO,
    ECHO_LIBRARIES,
    LibraryStand,
    add_libraries,
    library_facts,
)
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import numbers
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import Failed, Unavailable
from benchmarks.measure.rounds import alternate
from benchmarks.measure.tables import markdown_table

SUMMARY = "C++ libraries: sequential round trips on one connection"

SIZES = [64, 1024, 65536]
ROUND_TRIPS = [100, 1000]
LABELS = ["message", "round trips"]
WARM_UP = 0.05  # seconds
WALL: Metric[Sample] = Metric(
    "wall_us_per_round_trip",
    "Wall clock, µs per round trip (less is better):",
    lambda sample: sample.seconds / sample.requests * 1e6,
    digits=1,
    more_is_better=False,
)
METRICS = [WALL, CPU_WITHOUT_FLOOR, *LATENCIES]
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = ["--no-syscalls"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, [*ECHO_LIBRARIES, BLOCKING])
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--round-trips", type=numbers, default=ROUND_TRIPS, help="e.g. 100,1000")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each (9)")
    parser.add_argument("--quick", action="store_true", help="2 rounds")
    parser.add_argument(
        "--syscalls",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="a further pass under strace: system calls per round trip",
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of round trips, the libraries in turn."""
    facts = library_facts(options.libraries)
    if options.quick:
        options.rounds = min(options.rounds, 2)
    stand = LibraryStand(build_libraries(), cores)
    contenders = [FLOOR, *options.libraries]
    comparisons = [
        _compare(stand, size, round_trips, contenders, options, say)
        for size in options.sizes
        for round_trips in options.round_trips
    ]
    syscalls = _syscalls(stand, contenders, options, say) if options.syscalls else []
    longest = [each for each in comparisons if each.labels[1] == str(max(options.round_trips))]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds with the lowest and highest round; servers in turn,"
        " server and client on one core each, each reply compared before the next message.",
        *metric_tables(comparisons, LABELS, contenders, [WALL, CPU_WITHOUT_FLOOR]),
        *metric_tables(longest, LABELS, contenders, LATENCIES),
    ]
    if syscalls:
        parts += ["System calls per round trip, from a separate pass under strace:"]
        parts += [_syscall_table(options.sizes, syscalls, contenders)]
    panel = metric_panel("", comparisons, WALL, lambda each: " x ".join(each.labels))
    return Report(
        results={
            "page": "cpp_sequential",
            "machine": facts,
            "protocol": {
                "rounds": options.rounds,
                "server_core": cores.server,
                "client_core": cores.client,
            },
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
            "syscalls_per_round_trip": syscalls,
        },
        markdown="\n\n".join([*parts, *missing_list(comparisons)]),
        charts={
            "cpp_sequential": Chart(
                "C++ TCP echo, one connection (less is better)", "µs / round trip", [panel]
            )
        },
        failures=own_failures(comparisons),
    )


def _compare(
    stand: LibraryStand,
    size: int,
    round_trips: int,
    contenders: list[str],
    options: argparse.Namespace,
    say: Say,
) -> Comparison[Sample]:
    cell = Cell(ECHO, size, 1)
    outcomes = alternate(
        contenders,
        options.rounds,
        lambda name: _round(stand, cell, name, round_trips),
        report=lambda line: say(f"{size_name(size)} x {round_trips}: {line}"),
    )
    return Comparison((size_name(size), str(round_trips)), outcomes)


def _round(stand: LibraryStand, cell: Cell, name: str, round_trips: int) -> Sample:
    with stand.serving(name, cell) as loaded:
        return loaded.load("--requests", round_trips, warmup=WARM_UP)


def _syscalls(
    stand: LibraryStand, contenders: list[str], options: argparse.Namespace, say: Say
) -> list[dict[str, float]]:
    counts: list[dict[str, float]] = []
    for size in options.sizes:
        counts.append({})
        for name in contenders:
            try:
                count = stand.syscalls_a_request(Cell(ECHO, size, 1), name)
            except (Failed, Unavailable) as error:
                say(f"{size_name(size)}: {name}: under strace: {error}")
            else:
                counts[-1][name] = count
                say(f"{size_name(size)}: {name}: {count:.2f} system calls per round trip")
    return counts


def _syscall_table(sizes: list[int], counts: list[dict[str, float]], contenders: list[str]) -> str:
    rows = [
        [size_name(size), *(f"{row[name]:.2f}" if name in row else "n/a" for name in contenders)]
        for size, row in zip(sizes, counts, strict=True)
    ]
    return markdown_table(["message", *contenders], rows, labels=1)
