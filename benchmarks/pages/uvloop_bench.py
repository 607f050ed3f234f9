"""The table of zloop's performance page, row by row: uvloop's echo benchmark, written anew.

Three client workers, each a process with one blocking connection and one message in flight; 1, 10
and 100 KiB; servers with a protocol, a buffered protocol and streams, as in uvloop's benchmark: the
buffered one copies, the streams are not drained. Penstock's own streams are a row more. Each row is
measured with two clients: workers in C++ on a core of their own, and workers in Python that share
all cores with the server.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

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
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import Cell, EchoStand, size_name
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_loops, add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.spread import spread
from benchmarks.measure.tables import markdown_table

SUMMARY = "uvloop's echo benchmark, as on zloop's performance page"

# The server modes of that benchmark, and the equivalent styles of the echo server.
MODES = {
    "proto": "protocol",
    "buffered": "buffered-copy",
    "streams": "streams-undrained",
    # Not in that benchmark: penstock.start_server, on the other loops asyncio.start_server.
    "native-streams": "native-streams",
}
SIZES = [1024, 10240, 102400]
WORKERS = 3
METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
LABELS = ["message", "server mode"]


@dataclass(frozen=True)
class Client:
    """The load of one half of the page.

    Attributes:
        load: the program.
        name: shown.
        key: of its rows in the results.
        pinned: whether server and workers have one core each.
        sentence: where they run.
    """

    load: str
    name: str
    key: str
    pinned: bool
    sentence: str


CLIENTS = {
    "c++": Client(
        "echo_workers",
        "workers in C++, pinned",
        "cells",
        True,
        "Server and workers have one core each.",
    ),
    "python": Client(
        "echo_workers.py",
        "workers in Python, not pinned",
        "python_client_cells",
        False,
        "As in uvloop's own benchmark, server and workers run wherever the kernel puts them.",
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    known = list(MODES)
    add_loops(parser)
    parser.add_argument(
        "--modes", type=choices("mode", known), default=known, help=f"of {','.join(known)}"
    )
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--workers", type=int, default=WORKERS, help="client processes (3)")
    parser.add_argument(
        "--clients",
        type=choices("client", list(CLIENTS)),
        default=list(CLIENTS),
        help=f"of {','.join(CLIENTS)}",
    )
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every row, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    contenders = [FLOOR, *options.loops]
    measured: dict[str, list[Comparison[Sample]]] = {}
    parts = [
        describe(facts),
        f"{protocol_sentence(options, where='')} {options.workers} client workers.",
    ]
    for client in options.clients:
        kind = CLIENTS[client]
        stand = EchoStand(native, cores, load=kind.load, pinned=kind.pinned)

        def compare(size: int, mode: str, stand: EchoStand = stand) -> Comparison[Sample]:
            cell = Cell(MODES[mode], size, options.workers)
            outcomes = stand.compare(cell, contenders, options, say).outcomes
            return Comparison((size_name(size), mode), outcomes)

        rows = [compare(size, mode) for size in options.sizes for mode in options.modes]
        measured[client] = rows
        parts += [f"### {kind.name[0].upper()}{kind.name[1:]}", kind.sentence]
        parts += metric_tables(rows, LABELS, contenders, METRICS)
        parts += [_PACE.format(*rows[0].labels), _pace_table(rows[0])]
        parts += missing_list(rows, label=1)
    return Report(
        results={
            "page": "uvloop_bench",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "workers": options.workers,
            **{
                CLIENTS[client].key: [comparison.as_json(METRICS) for comparison in rows]
                for client, rows in measured.items()
            },
        },
        markdown="\n\n".join(parts),
        charts={
            _chart_name(client): _chart(client, rows, options.sizes)
            for client, rows in measured.items()
        },
        failures=[failure for rows in measured.values() for failure in own_failures(rows)],
    )


_PACE = (
    "Who sets the pace with {}, `{}`: CPU time of a request on both sides, and how busy each side"
    " is, in % of one core:"
)


def _pace_table(comparison: Comparison[Sample]) -> str:
    """For each server: the CPU time of both sides, the rate, and how busy both sides are."""
    header = ["server", "server, µs", "workers, µs", "thousand requests / s"]
    header += ["server busy", "workers busy"]
    rows = []
    for name in comparison.outcomes:
        samples = comparison.samples(name)
        if not samples:
            continue
        workers = [each.client_cpu_seconds / each.requests * 1e6 for each in samples]
        busy = [each.server_cpu_seconds / each.seconds * 100 for each in samples]
        workers_busy = [each.client_cpu_seconds / each.seconds * 100 for each in samples]
        rows.append(
            [
                name,
                f"{spread([each.cpu for each in samples]).median:.1f}",
                f"{spread(workers).median:.1f}",
                f"{spread([each.rate for each in samples]).median / 1e3:.1f}",
                f"{spread(busy).median:.0f} %",
                f"{spread(workers_busy).median:.0f} %",
            ]
        )
    return markdown_table(header, rows)


def _chart_name(client: str) -> str:
    return "uvloop_bench" if client == "c++" else f"uvloop_bench-{client}"


def _chart(client: str, rows: Sequence[Comparison[Sample]], sizes: Sequence[int]) -> Chart:
    panels = [
        metric_panel(
            f"{size_name(size)} messages",
            [each for each in rows if each.labels[0] == size_name(size)],
            RATE,
            lambda comparison: comparison.labels[1],
        )
        for size in sizes
    ]
    name = CLIENTS[client].name
    return Chart(
        f"uvloop's echo benchmark, {name}: requests per second (more is better)",
        "thousand requests / s",
        panels,
    )
