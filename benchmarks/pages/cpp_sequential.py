"""Sequential round trips on one TCP connection: their time and system calls.

The rows are those of a published comparison of C++ libraries (64 B, 1 KiB and 64 KiB; 100 and 1000
round trips). Here every round trip takes place: server and client are processes with one core each,
and each reply is compared byte for byte before the next message is sent.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU_WITHOUT_FLOOR, LATENCIES, Sample
from benchmarks.measure.comparison import compare_in_rounds, metric_tables
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, crossed, in_panels
from benchmarks.measure.echo_stand import Cell, size_name
from benchmarks.measure.library_stand import (
    BLOCKING,
    ECHO,
    ECHO_LIBRARIES,
    LibraryStand,
    library_facts,
)
from benchmarks.measure.native import build_libraries
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import Failed, Unavailable
from benchmarks.measure.sequential import (
    SERVERS_IN_TURN,
    WARM_UP,
    add_sequential,
    longest,
    sequential_method,
    wall_of,
)
from benchmarks.measure.syscalls import calls_table

SUMMARY = "C++ libraries: sequential round trips on one connection"

SIZES = [64, 1024, 65536]
ROUND_TRIPS = [100, 1000]
WALL = wall_of("round_trip", "per round trip")
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = ["--no-syscalls"]
PAGE = DeclaredPage(
    name="cpp_sequential",
    labels=["message", "round trips"],
    metrics=[WALL, CPU_WITHOUT_FLOOR, *LATENCIES],
    shown=[WALL, CPU_WITHOUT_FLOOR],
    charts={
        "cpp_sequential": Bars(
            "C++ TCP echo, one connection (less is better)",
            "µs / round trip",
            WALL,
            in_panels(crossed),
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_sequential(
        parser,
        [*ECHO_LIBRARIES, BLOCKING],
        SIZES,
        ROUND_TRIPS,
        counted="round-trips",
        rounds=9,
        quick="2 rounds",
    )
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

    def measure_round(row: tuple[int, int], name: str) -> Sample:
        size, round_trips = row
        with stand.serving(name, Cell(ECHO, size, 1)) as loaded:
            return loaded.load("--requests", round_trips, warmup=WARM_UP)

    comparisons = compare_in_rounds(
        {
            (size_name(size), str(round_trips)): (size, round_trips)
            for size in options.sizes
            for round_trips in options.round_trips
        },
        contenders,
        options.rounds,
        measure_round,
        say,
    )
    syscalls = _syscalls(stand, contenders, options, say) if options.syscalls else []
    further = metric_tables(longest(comparisons), PAGE.labels, contenders, LATENCIES)
    if syscalls:
        further += ["System calls per round trip, from a separate pass under strace:"]
        rows = [[size_name(size)] for size in options.sizes]
        further += [calls_table(["message"], rows, syscalls, contenders)]
    method = sequential_method(options, cores, SERVERS_IN_TURN)
    report = PAGE.report(comparisons, facts, method, further=further)
    report.results["syscalls_per_round_trip"] = syscalls
    return report


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
