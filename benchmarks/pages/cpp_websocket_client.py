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
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import size_name
from benchmarks.measure.library_stand import add_libraries
from benchmarks.measure.machine import describe
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import numbers
from benchmarks.measure.page import Report, Say
from benchmarks.measure.peers import bun_command
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import server
from benchmarks.measure.rounds import alternate
from benchmarks.measure.sanity import check_requests
from benchmarks.pages.cpp_websocket import LIBRARIES, Stand, websocket_facts
from benchmarks.pages.cpp_websocket_sequential import WARM_UP, cells_of

SUMMARY = "C++ libraries: WebSocket clients, one message after the other"

SERVERS = ["bun", OURS]
SIZES = [64, 1024, 4096, 65536]
MESSAGES = [10, 100, 1000]
LABELS = ["server", "message", "messages"]

WALL: Metric[Sample] = Metric(
    "wall_us_per_message",
    "Wall clock, µs for a message and its reply (less is better):",
    lambda sample: sample.seconds / sample.requests * 1e6,
    digits=1,
    more_is_better=False,
)
CPU: Metric[Sample] = Metric(
    "client_cpu_us_per_message",
    "CPU of the client, µs for a message and its reply (less is better):",
    lambda sample: sample.client_cpu_seconds / sample.requests * 1e6,
    digits=2,
    more_is_better=False,
)
METRICS = [WALL, CPU, *LATENCIES]
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, LIBRARIES)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--messages", type=numbers, default=MESSAGES, help="e.g. 10,100,1000")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each (7)")
    parser.add_argument("--quick", action="store_true", help="one round of 10 messages")


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

    def compare(server_name: str, size: int, count: int, *, text: bool) -> Comparison[Sample]:
        what = f"{size_name(size)}{', text' if text else ''}"
        with server(stand.command(server_name), cores.server) as running:
            port = running.ready_line
            settle(clients.command(FLOOR, port, size, text=text), cores)
            outcomes = alternate(
                contenders,
                options.rounds,
                lambda name: clients.measure(name, port, size, count, text=text),
                report=lambda line: say(f"{server_name}: {what} x {count}: {line}"),
            )
        return Comparison((server_name, what, str(count)), outcomes)

    comparisons = [
        compare(server_name, size, count, text=text)
        for server_name in SERVERS
        for size, count, text in cells_of(options.sizes, options.messages)
    ]
    longest = [each for each in comparisons if each.labels[2] == str(max(options.messages))]
    panel = metric_panel("", longest, WALL, lambda each: f"{each.labels[0]}: {each.labels[1]}")
    return Report(
        results={
            "page": "cpp_websocket_client",
            "machine": facts,
            "protocol": {
                "rounds": options.rounds,
                "server_core": cores.server,
                "client_core": cores.client,
            },
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(
            [
                describe(facts),
                f"Median of {options.rounds} rounds with the lowest and highest round; clients in"
                " turn with one server, server and client on one core each.",
                *metric_tables(comparisons, LABELS, contenders, [WALL, CPU]),
                *metric_tables(longest, LABELS, contenders, LATENCIES),
                *missing_list(comparisons),
            ]
        ),
        charts={
            "cpp_websocket_client": Chart(
                "C++ WebSocket clients, one connection (less is better)", "µs / message", [panel]
            )
        },
        failures=own_failures(comparisons),
    )
