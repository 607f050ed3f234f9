"""The table of zloop's performance page, row by row: uvloop's echo benchmark, written anew.

Three client workers, each a process with one blocking connection and one message in flight; 1, 10
and 100 KiB; servers with a protocol, a buffered protocol and streams, as in uvloop's benchmark: the
buffered one copies, the streams are not drained. Penstock's own streams are a row more. Each row is
measured with two clients: workers in C++ on a core of their own, and workers in Python that share
all cores with the server.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, turns_method
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, in_panels
from benchmarks.measure.echo_stand import Cell, EchoStand, size_name
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_choices, add_loops, add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
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
        chart: the name of its file.
        pinned: whether server and workers have one core each.
        sentence: where they run.
    """

    load: str
    name: str
    key: str
    chart: str
    pinned: bool
    sentence: str


CLIENTS = {
    "c++": Client(
        "echo_workers",
        "workers in C++, pinned",
        "cells",
        "uvloop_bench",
        True,
        "Server and workers have one core each.",
    ),
    "python": Client(
        "echo_workers.py",
        "workers in Python, not pinned",
        "python_client_cells",
        "uvloop_bench-python",
        False,
        "As in uvloop's own benchmark, server and workers run wherever the kernel puts them.",
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    add_choices(parser, "--modes", "mode", MODES)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--workers", type=int, default=WORKERS, help="client processes (3)")
    add_choices(parser, "--clients", "client", CLIENTS)
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every row, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    contenders = [FLOOR, *options.loops]
    method = turns_method(options, cores, f"{options.workers} client workers.", where="")
    report = Report.begin("uvloop_bench", facts, method, workers=options.workers)
    for kind in (CLIENTS[client] for client in options.clients):
        stand = EchoStand(native, cores, load=kind.load, pinned=kind.pinned)
        rows = stand.compare_rows(
            {
                (size_name(size), mode): Cell(MODES[mode], size, options.workers)
                for size in options.sizes
                for mode in options.modes
            },
            contenders,
            options,
            say,
        )
        report.add_part(
            kind.key,
            rows,
            LABELS,
            METRICS,
            f"### {kind.name[0].upper()}{kind.name[1:]}",
            kind.sentence,
            further=[_PACE.format(*rows[0].labels), _pace_table(rows[0])],
            label=1,
        )
        report.charts[kind.chart] = Bars(
            f"uvloop's echo benchmark, {kind.name}: requests per second (more is better)",
            "thousand requests / s",
            RATE,
            in_panels(
                lambda comparison: comparison.labels[1],
                title=lambda comparison: f"{comparison.labels[0]} messages",
            ),
        ).drawn(rows)
    return report


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
