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
from benchmarks.measure.comparison import compare_in_rounds, metric_tables
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, crossed, in_panels
from benchmarks.measure.echo_stand import size_name
from benchmarks.measure.native import build_libraries
from benchmarks.measure.page import Report, Say
from benchmarks.measure.sequential import (
    SERVERS_IN_TURN,
    WALL_OF_MESSAGE,
    WARM_UP,
    add_sequential,
    longest,
    sequential_method,
)
from benchmarks.pages.cpp_websocket import LIBRARIES, Stand, websocket_facts

SUMMARY = "C++ libraries: sequential WebSocket messages on one connection"

SIZES = [64, 1024, 4096, 65536]
TEXT_SIZES = [64]
MESSAGES = [10, 100, 1000]
COSTS = [Cost(WALL_OF_MESSAGE, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]
Cell = tuple[int, int, bool]
"""Size, number of messages, and whether they are texts."""
PAGE = DeclaredPage(
    name="cpp_websocket_sequential",
    labels=["message", "messages"],
    metrics=[WALL_OF_MESSAGE, CPU_WITHOUT_FLOOR, *LATENCIES],
    shown=[WALL_OF_MESSAGE, CPU_WITHOUT_FLOOR],
    charts={
        "cpp_websocket_sequential": Bars(
            "C++ WebSocket echo, one connection (less is better)",
            "µs / message",
            WALL_OF_MESSAGE,
            in_panels(crossed),
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_sequential(parser, LIBRARIES, SIZES, MESSAGES, rounds=7, quick="2 rounds")


def cells_of(sizes: Sequence[int], messages: Sequence[int]) -> dict[tuple[str, ...], Cell]:
    """The cells by their labels: binary messages, then texts."""
    return {
        (f"{size_name(size)}{', text' if text else ''}", str(count)): (size, count, text)
        for text in (False, True)
        for size in sizes
        if not text or size in TEXT_SIZES
        for count in messages
    }


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of messages, the libraries in turn."""
    facts = websocket_facts()
    if options.quick:
        options.rounds = min(options.rounds, 2)
    stand = Stand(str(build_libraries()), cores)
    contenders = [FLOOR, *options.libraries]

    def measure_round(cell: Cell, name: str) -> Sample:
        size, messages, text = cell
        with stand.serving(name, size, 1, text=text) as loaded:
            return loaded.load("--requests", messages, warmup=WARM_UP)

    cells = cells_of(options.sizes, options.messages)
    comparisons = compare_in_rounds(cells, contenders, options.rounds, measure_round, say)
    return PAGE.report(
        comparisons,
        facts,
        sequential_method(options, cores, SERVERS_IN_TURN),
        further=metric_tables(longest(comparisons), PAGE.labels, contenders, LATENCIES),
    )
