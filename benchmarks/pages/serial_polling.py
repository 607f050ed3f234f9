"""Serial ports: the rows of anyserial's page for an instrument that is polled.

Poll to frame in six ways, open and close, 4 KiB at the pace of a line of 921,600 baud, and many
ports with the threads that they take. ``--device`` polls a real port instead of pseudo-terminals.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import Cores, kernel_workers_on
from benchmarks.measure.comparison import Comparison, Metric
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.options import add_choices, numbers
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.spread import spread
from benchmarks.serial_ports.libraries import LOOPS_OF
from benchmarks.serial_ports.measured import (
    CONTENDERS_ARE,
    ONE_READ,
    OWN_LOOP,
    Fleet,
    output,
    poll_ports,
)

SUMMARY = "Serial ports: poll to frame, open and close, a paced line, 128 ports"

PACKAGES = [OURS, "anyserial", "pyserial-asyncio", "pyserial-asyncio-fast", "pyserial", "anyio"]
PACKAGES += ["trio", "uvloop"]
LIBRARIES = [OURS, "anyserial", "pyserial-asyncio", "pyserial-asyncio-fast"]
IN_LOOP = [f"{library}@{loop}" for library in LIBRARIES for loop in LOOPS_OF[library]]
BLOCKING = [FLOOR, OURS, "anyserial", "pyserial", ONE_READ]
CONTENDERS = [*BLOCKING, *IN_LOOP]
LOOPS = ["asyncio", "uvloop", "trio"]
PARTS = ["frame", "open", "line", "ports"]
PORTS = [8, 32, 128]
WAYS = {
    "sync": "without an event loop",
    "async": "in the event loop",
    "buffered": "BufferedByteReceiveStream",
    "portal": "through a portal",
}


@dataclass(frozen=True)
class Latency:
    """One workload of one round; µs."""

    p50: float
    p90: float
    p99: float
    max: float
    mean: float
    cpu: float


@dataclass(frozen=True)
class Line:
    """A round of 16 chunks over the paced line; seconds."""

    seconds: float
    cpu_seconds: float


P50: Metric[Latency] = Metric(
    "p50_us", "Median, µs (less is better):", lambda each: each.p50, 1, more_is_better=False
)
P90: Metric[Latency] = Metric(
    "p90_us", "90th percentile, µs:", lambda each: each.p90, 1, more_is_better=False
)
P99: Metric[Latency] = Metric(
    "p99_us", "99th percentile, µs:", lambda each: each.p99, 1, more_is_better=False
)
MAX: Metric[Latency] = Metric(
    "max_us", "Slowest, µs:", lambda each: each.max, 0, more_is_better=False
)
CPU: Metric[Latency] = Metric(
    "cpu_us", "CPU of the process, µs each:", lambda each: each.cpu, 1, more_is_better=False
)
SHARE: Metric[Line] = Metric(
    "percent_of_line",
    "Share of the line's rate, % (more is better):",
    lambda each: 100 * 16 * 4096 / 92_160 / each.seconds,
    1,
)
CHUNK_CPU: Metric[Line] = Metric(
    "cpu_us_per_chunk",
    "CPU of the process, µs per 4 KiB (less is better):",
    lambda each: each.cpu_seconds / 16 * 1e6,
    0,
    more_is_better=False,
)
POLL_WALL: Metric[Fleet] = Metric(
    "us_per_poll",
    "Wall clock, µs per poll (less is better):",
    lambda each: each.seconds / each.polls * 1e6,
    1,
    more_is_better=False,
)
POLL_CPU: Metric[Fleet] = Metric(
    "cpu_us_per_poll",
    "CPU of the process, µs per poll:",
    lambda each: each.cpu_seconds / each.polls * 1e6,
    1,
    more_is_better=False,
)
THREADS: Metric[Fleet] = Metric(
    "threads",
    "Threads of the process while it polls:",
    lambda each: each.threads,
    0,
    more_is_better=False,
)
COSTS: list[Cost[Any]] = [Cost(P50, Latency), Cost(CHUNK_CPU, Line), Cost(POLL_CPU, Fleet)]
COMPARISON_OPTIONS = ["--part", "frame,open"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each (7)")
    parser.add_argument("--count", type=int, default=500, help="polls of a round (500)")
    parser.add_argument("--openings", type=int, default=100, help="openings of a round (100)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 100 polls")
    add_choices(parser, "--part", "part", PARTS)
    parser.add_argument("--ports", type=numbers, default=PORTS, help="ports polled at once")
    add_choices(parser, "--contenders", "contender", CONTENDERS, described=CONTENDERS_ARE)
    parser.add_argument("--device", help="poll this port, for example /dev/ttyUSB0")
    parser.add_argument("--request", default=r"A\r", help=r"what asks it for a frame (A\r)")
    parser.add_argument("--baudrate", type=int, default=115_200, help="of the device (115200)")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds = min(options.rounds, 2)
        options.count, options.openings = 100, 20
    method = Method(
        {
            "rounds": options.rounds,
            "polls": options.count,
            "openings": options.openings,
            "core": cores.server,
            "device": options.device,
        }
    )
    report = Report.begin("serial_polling", machine_facts(PACKAGES), method)
    with kernel_workers_on(cores.server) as pinned:
        report.results["kernel_workers_on_core"] = cores.server if pinned else None
        if {"frame", "open", "line"} & set(options.part):
            _measure_polls(options, cores, say, report)
        if "ports" in options.part and options.device is None:
            _measure_ports(options, cores, say, report)
    return report


# ---- one port ---------------------------------------------------------------------------------


def _measure_polls(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    arguments = ["--count", str(options.count), "--openings", str(options.openings)]
    if "line" not in options.part:
        arguments.append("--no-line")
    if options.device is not None:
        arguments += ["--device", options.device, "--request", options.request]
        arguments += ["--baudrate", str(options.baudrate)]
    outcomes = alternate(
        [name for name in CONTENDERS if name in options.contenders],
        options.rounds,
        lambda name: output("polling.py", ["--contender", name, *arguments], cores),
        report=lambda line: say(f"polling: {line.split('{')[0]}"),
    )
    if "frame" in options.part:
        frames = [row for way in WAYS for row in _rows(way, WAYS[way], outcomes, _latency)]
        title = f"{options.count} polls, each a request and its frame of 48 bytes."
        if options.device is not None:
            title = f"{options.count} polls of {options.device}, each a request and its frame."
        metrics = [P50, P90, P99]
        report.add_part("frame", frames, ["way", "loop"], metrics, "## Poll to frame", title)
        cancels = _rows("cancel", "cancel", outcomes, _latency)
        if cancels:
            title = "How long after its deadline of 10 ms a cancelled receive returns."
            report.add_part("cancel", cancels, ["", "loop"], [P50, P99], "## Cancellation", title)
    if "open" in options.part:
        openings = _rows("open", "open and close", outcomes, _latency)
        title = "A port is opened, configured and closed. anyserial's page allows 50 ms."
        report.add_part("open", openings, ["", "loop"], [P50, MAX], "## Open and close", title)
    if "line" in options.part and options.device is None:
        lines = [
            row
            for way in ("line send", "line receive")
            for row in _rows(way, way.removeprefix("line "), outcomes, _line)
        ]
        report.add_part(
            "line",
            lines,
            ["", "loop"],
            [SHARE, CHUNK_CPU],
            "## 4 KiB at 921,600 baud",
            "16 chunks of 4 KiB to and from a far end at the pace of 921,600 baud. A"
            " pseudo-terminal has no pace of its own: the far end moves the bytes that are due each"
            " millisecond.",
        )


def _latency(fields: dict[str, float]) -> Latency:
    return Latency(**fields)


def _line(fields: dict[str, float]) -> Line:
    return Line(**fields)


def _rows(
    key: str,
    way: str,
    outcomes: dict[str, Outcome[dict[str, Any]]],
    sample: Callable[[dict[str, float]], Any],
) -> list[Comparison[Any]]:
    """The rows of a workload: without a loop, on Penstock's loop, and on each other loop."""

    def of(name: str) -> Outcome[Any] | None:
        outcome = outcomes.get(name)
        if outcome is None or (outcome.samples and key not in outcome.samples[0]):
            return None
        return outcome.map(lambda results: sample(results[key]))

    def row(loop: str, named: dict[str, Outcome[Any] | None]) -> list[Comparison[Any]]:
        there = {name: outcome for name, outcome in named.items() if outcome is not None}
        measured = any(outcome.samples for outcome in there.values())
        return [Comparison((way, loop), there)] if measured else []

    if key == "sync":
        return row("none", {name: of(name) for name in BLOCKING})
    rows = []
    if key == "open":
        rows += row("none", {name: of(name) for name in BLOCKING})
    best: dict[str, Outcome[Any] | None] = {OURS: of(f"{OURS}@{OURS}")}
    for library in LIBRARIES[1:]:
        measured = [
            outcome
            for loop in LOOPS_OF[library]
            if (outcome := of(f"{library}@{loop}")) is not None and outcome.samples
        ]
        if measured:
            best[library] = min(measured, key=_cost)
    rows += row(OWN_LOOP, best)
    for loop in LOOPS:
        rows += row(loop, {library: of(f"{library}@{loop}") for library in LIBRARIES})
    return rows


def _cost(outcome: Outcome[Any]) -> float:
    """The figure by which a peer's loops are compared."""
    return spread(
        [each.p50 if isinstance(each, Latency) else each.cpu_seconds for each in outcome.samples]
    ).median


# ---- many ports -------------------------------------------------------------------------------


def _measure_ports(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    wanted = [name for name in IN_LOOP if name.split("@")[0] in (OURS, "anyserial")]
    wanted += ["pyserial", ONE_READ]
    report.add_part(
        "ports",
        poll_ports(
            {(str(ports),): (ports, "process") for ports in options.ports},
            [name for name in wanted if name in options.contenders],
            options.rounds,
            cores,
            say,
        ),
        ["ports"],
        [POLL_WALL, POLL_CPU, THREADS],
        "## Many ports",
        "50 polls of every port, from opening to closing; the far ends are one process. pyserial"
        " has a thread for each port.",
    )
