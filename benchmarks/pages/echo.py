"""TCP echo: five styles of server, each asyncio loop, beside a raw epoll server in C++.

One client in C++ (``cpp/echo_client.cpp``) loads every server alike: N connections, one message in
flight on each, every reply compared byte for byte. Server and client have a core each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart, Panel
from benchmarks.measure.processes import Failed, run, server
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.sanity import check_requests
from benchmarks.measure.spread import Spread, paired_ratio, spread
from benchmarks.measure.syscalls import counted
from benchmarks.measure.tables import figure, markdown_table

SUMMARY = "TCP echo, closed loop"

FLOOR = "floor"
OURS = "penstock"
LOOPS = [OURS, "asyncio", "uvloop", "zloop", "rloop"]
STYLES = ["protocol", "buffered", "streams", "native-streams", "sock"]
SIZES = [1024, 10240]
CONNECTIONS = [3, 32]
GRACE = 30.0  # seconds for a client beyond what its timed region takes
# A load before the measured one, its connections opened and closed. glibc serves the 256 KiB that
# asyncio and others receive into by mmap and munmap until the first such block is freed whole,
# which the end of a connection does: before that asyncio's protocol costs three times as much, for
# ever. A server in use has seen connections end, so that state is not the one to measure.
SETTLING_REQUESTS = 500
# The difference of two counts under strace is free of the calls for set-up, end and tracer.
SYSCALL_REQUESTS = (500, 4500)

Figures = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One comparison: the same style, message size and number of connections for every loop."""

    style: str
    size: int
    connections: int

    def __str__(self) -> str:
        return f"{self.style}, {size_name(self.size)}, {self.connections} connections"


@dataclass(frozen=True)
class Sample:
    """One round of one server."""

    requests: int
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    latency_p50_us: float
    latency_p99_us: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def cpu(self) -> float:
        """CPU microseconds of the server for a request."""
        return self.server_cpu_seconds / self.requests * 1e6

    def __str__(self) -> str:
        return f"{self.rate / 1e3:.1f} k req/s, {self.cpu:.2f} µs CPU a request"


@dataclass
class Comparison:
    """A cell with what each contender gave in it."""

    cell: Cell
    outcomes: dict[str, Outcome[Sample]]
    syscalls: dict[str, float]

    def rates(self, name: str) -> list[float]:
        return [sample.rate for sample in self.samples(name)]

    def cpus(self, name: str) -> list[float]:
        return [sample.cpu for sample in self.samples(name)]

    def samples(self, name: str) -> list[Sample]:
        outcome = self.outcomes.get(name)
        return outcome.samples if outcome else []

    def peers(self) -> list[str]:
        """The other loops that were measured."""
        return [name for name in self.outcomes if name not in (FLOOR, OURS) and self.samples(name)]

    def best_peer(self) -> str | None:
        """The peer with the most requests a second."""
        return max(self.peers(), key=lambda name: spread(self.rates(name)).median, default=None)


def size_name(size: int) -> str:
    """``1 KiB``, ``10 KiB``, ``1000 B``."""
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument(
        "--loops", type=_names, default=LOOPS, help=f"of {','.join(LOOPS)} or module:factory"
    )
    parser.add_argument("--styles", type=_styles, default=STYLES, help=f"of {','.join(STYLES)}")
    parser.add_argument("--sizes", type=_numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--connections", type=_numbers, default=CONNECTIONS, help="e.g. 3,32")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each server (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a round (1)")
    parser.add_argument("--warmup", type=float, default=0.3, help="before each round (0.3)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 0.2 s, 32 connections")
    parser.add_argument(
        "--syscalls",
        action="store_true",
        help="a further pass under strace: system calls a request",
    )


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, its contenders in turn."""
    facts = machine_facts([name for name in LOOPS if name != "asyncio"])
    if options.quick:
        options.rounds, options.seconds, options.warmup = 2, 0.2, 0.1
        if options.connections == CONNECTIONS:
            options.connections = [32]
    stand = Stand(build_native(), cores)
    comparisons = []
    for style in options.styles:
        for size in options.sizes:
            for connections in options.connections:
                cell = Cell(style, size, connections)
                comparisons.append(_compare(cell, options, stand, say))
    return Report(
        results=_as_json(comparisons, options, cores, facts),
        markdown=_as_markdown(comparisons, options, facts),
        charts=_charts(comparisons),
        failures=_failures(comparisons),
    )


def _compare(cell: Cell, options: argparse.Namespace, stand: Stand, say: Say) -> Comparison:
    contenders = [FLOOR, *options.loops]
    outcomes = alternate(
        contenders,
        options.rounds,
        lambda name: _round(stand, stand.server(name, cell), cell, options),
        report=lambda line: say(f"{cell}: {line}"),
    )
    syscalls = {}
    if options.syscalls:
        for name in contenders:
            if outcomes[name].missing is not None:
                continue
            try:
                syscalls[name] = _syscalls_a_request(stand, stand.server(name, cell), cell)
            except Failed as error:
                say(f"{cell}: {name}: under strace: {error}")
            else:
                say(f"{cell}: {name}: {syscalls[name]:.2f} system calls a request")
    return Comparison(cell, outcomes, syscalls)


@dataclass(frozen=True)
class Stand:
    """The test stand: the native programs and the cores on which the two ends run."""

    native: Path
    cores: Cores

    def server(self, name: str, cell: Cell) -> list[str]:
        """The command of the server called ``name``."""
        if name == FLOOR:
            return [str(self.native / "echo_floor")]
        script = str(BENCHMARKS / "echo_server.py")
        return [sys.executable, script, "--loop", name, "--style", cell.style]

    def load(self, cell: Cell, port: str, *options: object, timeout: float = GRACE) -> Figures:
        """Run the client to its end; the figures that it printed."""
        command = [str(self.native / "echo_client"), "--port", port]
        command += ["--size", str(cell.size), "--connections", str(cell.connections)]
        command += [str(option) for option in options]
        figures: Figures = json.loads(run(command, self.cores.client, timeout=timeout))
        return figures

    def settle(self, cell: Cell, port: str) -> None:
        """Let connections come and go; see SETTLING_REQUESTS."""
        self.load(cell, port, "--requests", SETTLING_REQUESTS, "--warmup", 0)


def _round(stand: Stand, command: Sequence[str], cell: Cell, options: argparse.Namespace) -> Sample:
    with server(command, stand.cores.server) as running:
        stand.settle(cell, running.ready_line)
        timed = ["--server-pid", running.pid]
        timed += ["--seconds", options.seconds, "--warmup", options.warmup]
        timeout = options.seconds + options.warmup + GRACE
        before = time.monotonic()
        figures = stand.load(cell, running.ready_line, *timed, timeout=timeout)
        outside = time.monotonic() - before
    check_requests(
        requests=figures["requests"],
        seconds=figures["seconds"],
        asked_seconds=options.seconds,
        outside_seconds=outside,
        cpu=figures["server_cpu_seconds"],
    )
    return Sample(
        requests=figures["requests"],
        seconds=figures["seconds"],
        server_cpu_seconds=figures["server_cpu_seconds"],
        client_cpu_seconds=figures["client_cpu_seconds"],
        latency_p50_us=figures["latency_us"]["p50"],
        latency_p99_us=figures["latency_us"]["p99"],
    )


def _syscalls_a_request(stand: Stand, command: Sequence[str], cell: Cell) -> float:
    totals = []
    with server(command, stand.cores.server) as running:
        stand.settle(cell, running.ready_line)
        for requests in SYSCALL_REQUESTS:
            with counted(running.pid) as calls:
                figures = stand.load(
                    cell, running.ready_line, "--requests", requests, "--warmup", 0
                )
            totals.append((calls.total(), figures["replies"]))
    (few_calls, few), (many_calls, many) = totals
    return float(many_calls - few_calls) / float(many - few)


def _failures(comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"{comparison.cell}: {name}: {outcome.missing}"
        for comparison in comparisons
        for name, outcome in comparison.outcomes.items()
        if name in (FLOOR, OURS) and outcome.missing is not None
    ]


def _as_json(
    comparisons: Sequence[Comparison],
    options: argparse.Namespace,
    cores: Cores,
    facts: dict[str, object],
) -> dict[str, object]:
    return {
        "page": "echo",
        "machine": facts,
        "protocol": {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "warmup_seconds": options.warmup,
            "server_core": cores.server,
            "client_core": cores.client,
            "pinned_apart": cores.apart,
        },
        "cells": [_cell_as_json(comparison) for comparison in comparisons],
    }


def _cell_as_json(comparison: Comparison) -> dict[str, object]:
    contenders: dict[str, object] = {}
    for name, outcome in comparison.outcomes.items():
        if outcome.missing is not None:
            contenders[name] = {"missing": outcome.missing}
            continue
        contenders[name] = {
            "requests_per_second": spread(comparison.rates(name)).as_json(),
            "server_cpu_us_per_request": spread(comparison.cpus(name)).as_json(),
            "syscalls_per_request": comparison.syscalls.get(name),
            "rounds": [asdict(sample) for sample in outcome.samples],
        }
    against_floor = _against_floor(comparison)
    return {
        **asdict(comparison.cell),
        "contenders": contenders,
        "best_peer": comparison.best_peer(),
        "penstock_rate_to_peer": {
            peer: ratio.as_json()
            for peer in comparison.peers()
            if (ratio := _against(comparison, peer)) is not None
        },
        "penstock_cpu_to_floor": against_floor.as_json() if against_floor else None,
    }


def _against(comparison: Comparison, peer: str) -> Spread | None:
    if not comparison.samples(OURS):
        return None
    return paired_ratio(comparison.rates(OURS), comparison.rates(peer))


def _against_floor(comparison: Comparison) -> Spread | None:
    if not comparison.samples(OURS) or not comparison.samples(FLOOR):
        return None
    return paired_ratio(comparison.cpus(OURS), comparison.cpus(FLOOR))


def _as_markdown(
    comparisons: Sequence[Comparison], options: argparse.Namespace, facts: dict[str, object]
) -> str:
    contenders = [FLOOR, *options.loops]
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round; servers in turn, server and client on a core each.",
        "Thousand requests a second (more is better):",
        _table(comparisons, contenders, _rate_cell, "penstock / best peer", _peer_cell),
        "Server CPU, µs a request (less is better):",
        _table(comparisons, contenders, _cpu_cell, "penstock / floor", _floor_cell),
    ]
    if any(comparison.syscalls for comparison in comparisons):
        parts += [
            "System calls a request, from a pass of its own under strace:",
            _table(comparisons, contenders, _syscall_cell, "", lambda comparison: ""),
        ]
    reasons = {
        f"- {name}, {comparison.cell.style}: {outcome.missing}"
        for comparison in comparisons
        for name, outcome in comparison.outcomes.items()
        if outcome.missing is not None
    }
    if reasons:
        parts += ["Not measured (n/a):", "\n".join(sorted(reasons))]
    return "\n\n".join(parts)


def _table(
    comparisons: Sequence[Comparison],
    contenders: Sequence[str],
    cell: Callable[[Comparison, str], str],
    verdict: str,
    judge: Callable[[Comparison], str],
) -> str:
    verdicts = [verdict] if verdict else []
    rows = []
    for comparison in comparisons:
        which = comparison.cell
        row = [which.style, size_name(which.size), str(which.connections)]
        row += [
            cell(comparison, name) if comparison.samples(name) else "n/a" for name in contenders
        ]
        rows.append(row + [judge(comparison) for _ in verdicts])
    header = ["style", "message", "connections", *contenders, *verdicts]
    return markdown_table(header, rows, labels=2)


def _rate_cell(comparison: Comparison, name: str) -> str:
    return figure(spread(comparison.rates(name)), 1, 1e3)


def _cpu_cell(comparison: Comparison, name: str) -> str:
    return figure(spread(comparison.cpus(name)), 2)


def _syscall_cell(comparison: Comparison, name: str) -> str:
    calls = comparison.syscalls.get(name)
    return "n/a" if calls is None else f"{calls:.2f}"


def _peer_cell(comparison: Comparison) -> str:
    best = comparison.best_peer()
    ratio = _against(comparison, best) if best is not None else None
    return f"{figure(ratio, 2)} {best}" if ratio else "n/a"


def _floor_cell(comparison: Comparison) -> str:
    ratio = _against_floor(comparison)
    return figure(ratio, 2) if ratio else "n/a"


def _charts(comparisons: Sequence[Comparison]) -> dict[str, Chart]:
    return {
        "echo": Chart(
            "TCP echo: requests a second (more is better)",
            "thousand requests / s",
            _panels(comparisons, lambda sample: sample.rate / 1e3),
        ),
        "echo-cpu": Chart(
            "TCP echo: server CPU a request (less is better)",
            "µs / request",
            _panels(comparisons, lambda sample: sample.cpu),
        ),
    }


def _panels(comparisons: Sequence[Comparison], value: Callable[[Sample], float]) -> list[Panel]:
    by_load: dict[tuple[int, int], list[Comparison]] = {}
    for comparison in comparisons:
        load = (comparison.cell.size, comparison.cell.connections)
        by_load.setdefault(load, []).append(comparison)
    panels = []
    for (size, connections), group in by_load.items():
        values = {
            name: [
                spread([value(sample) for sample in samples]) if samples else None
                for samples in (comparison.samples(name) for comparison in group)
            ]
            for name in group[0].outcomes
        }
        title = f"{size_name(size)} messages, {connections} connections"
        panels.append(Panel(title, [comparison.cell.style for comparison in group], values))
    return panels


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _styles(text: str) -> list[str]:
    names = _names(text)
    for name in names:
        if name not in STYLES:
            raise argparse.ArgumentTypeError(
                f"unknown style '{name}'; choose from {','.join(STYLES)}"
            )
    return names


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in _names(text)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"needs whole numbers such as 3,32, not '{text}'")
    return numbers
