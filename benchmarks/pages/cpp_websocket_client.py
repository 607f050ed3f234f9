"""WebSocket clients in C++: messages one after the other, to Bun's server and to Penstock's.

The rows are those of a published comparison, which measures clients: its own and Drogon's with a
server of Bun, and its own with its own server. Here each client sends to the same running server,
with one core each, and compares each reply before it sends the next message. The floor is the load
of the other pages, which has no library: raw epoll, with frames of its own.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    GRACE,
    LATENCIES,
    Sample,
    run_load,
    sample_of,
    settle,
)
from benchmarks.measure.comparison import Comparison, Metric, compare_in_rounds, metric_tables
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, in_panels
from benchmarks.measure.native import build_libraries
from benchmarks.measure.page import Report, Say
from benchmarks.measure.peers import bun_command
from benchmarks.measure.processes import server
from benchmarks.measure.sanity import check_requests
from benchmarks.measure.sequential import (
    WALL_OF_MESSAGE,
    WARM_UP,
    add_sequential,
    longest,
    sequential_method,
)
from benchmarks.pages.cpp_websocket import LIBRARIES, Stand, websocket_facts
from benchmarks.pages.cpp_websocket_sequential import MESSAGES, SIZES, Cell, cells_of

SUMMARY = "C++ libraries: WebSocket clients, one message after the other"

SERVERS = ["bun", OURS]
CPU: Metric[Sample] = Metric(
    "client_cpu_us_per_message",
    "CPU of the client, µs for a message and its reply (less is better):",
    lambda sample: sample.client_cpu_seconds / sample.requests * 1e6,
    digits=2,
    more_is_better=False,
)
COSTS = [Cost(WALL_OF_MESSAGE, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]
_BARS = in_panels(lambda each: f"{each.labels[0]}: {each.labels[1]}")
PAGE = DeclaredPage(
    name="cpp_websocket_client",
    labels=["server", "message", "messages"],
    metrics=[WALL_OF_MESSAGE, CPU, *LATENCIES],
    shown=[WALL_OF_MESSAGE, CPU],
    charts={
        "cpp_websocket_client": Bars(
            "C++ WebSocket clients, one connection (less is better)",
            "µs / message",
            WALL_OF_MESSAGE,
            lambda comparisons, metric: _BARS(longest(comparisons), metric),
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    quick = "one round of 10 messages"
    add_sequential(parser, LIBRARIES, SIZES, MESSAGES, rounds=7, quick=quick)


@dataclass(frozen=True)
class Clients:
    """The programs of the clients."""

    stand: Stand

    def command(self, name: str, port: str, size: int, *, text: bool) -> list[str]:
        """The command of a client.

        Raises:
            Unavailable: if Bun is not there.
        """
        if name == "bun":
            command = bun_command("websocket_client.js")
        else:
            program = "websocket_client" if name == FLOOR else f"websocket_client_{name}"
            command = [f"{self.stand.native}/{program}"]
        command += ["--port", port, "--size", str(size), "--text", str(int(text))]
        return [*command, "--connections", "1"]

    def measure(self, name: str, port: str, size: int, count: int, *, text: bool) -> Sample:
        """Send ``count`` messages.

        Raises:
            Unavailable: if the client is not there.
            Failed: if it breaks, or a reply is wrong.
            Impossible: if the figures cannot be true.
        """
        command = self.command(name, port, size, text=text)
        before = time.monotonic()
        figures = run_load(
            command, self.stand.cores, "--requests", count, "--warmup", WARM_UP, timeout=GRACE
        )
        check_requests(
            requests=figures["requests"],
            seconds=figures["seconds"],
            asked_seconds=0,
            outside_seconds=time.monotonic() - before,
            cpu=figures["client_cpu_seconds"],
        )
        return sample_of(figures)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each server, size and number of messages, the clients in turn."""
    facts = websocket_facts()
    if options.quick:
        options.rounds, options.messages = 1, options.messages[:1]
    stand = Stand(str(build_libraries()), cores)
    clients = Clients(stand)
    contenders = [FLOOR, *options.libraries]

    def measure_round(row: tuple[str, Cell], name: str) -> Sample:
        port, (size, count, text) = row
        return clients.measure(name, port, size, count, text=text)

    comparisons: list[Comparison[Sample]] = []
    for server_name in SERVERS:
        for labels, cell in cells_of(options.sizes, options.messages).items():
            with server(stand.command(server_name), cores.server) as running:
                port, (size, _, text) = running.ready_line, cell
                settle(clients.command(FLOOR, port, size, text=text), cores)
                comparisons += compare_in_rounds(
                    {(server_name, *labels): (port, cell)},
                    contenders,
                    options.rounds,
                    measure_round,
                    say,
                )
    how = "clients in turn with one server, server and client on one core each."
    return PAGE.report(
        comparisons,
        facts,
        sequential_method(options, cores, how),
        further=metric_tables(longest(comparisons), PAGE.labels, contenders, LATENCIES),
    )
