"""Alicat instruments: a question, opening, sixteen devices at 100 Hz; beside published clients.

The instruments answer at once, on ptys, from a process on another core. Each contender is a process
of its own (``benchmarks/instruments``), in turn, round after round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.instruments.libraries import COMMANDS
from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison, Metric, compare_in_rounds, contenders_of
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import figures_of
from benchmarks.measure.spread import spread
from benchmarks.measure.tables import markdown_table

SUMMARY = "Alicat instruments: a question, opening, sixteen devices at 100 Hz"

PROGRAMS = BENCHMARKS / "instruments"
PACKAGES = ["penstock", "alicatlib", "alicat", "anyio", "uvloop"]
PARTS = ["query", "open", "fleet"]
EAGER = ["off", "on"]
#: Name on the page -> library and loop.
CONTENDERS = {
    FLOOR: FLOOR,
    OURS: "penstock@penstock",
    "penstock@asyncio": "penstock@asyncio",
    "alicatlib": "alicatlib@asyncio",
    "alicatlib@uvloop": "alicatlib@uvloop",
    "alicat": "alicat@asyncio",
    "alicat@uvloop": "alicat@uvloop",
}
#: The figures of the others are as clear after a quarter of a minute.
SECONDS, PEER_SECONDS = 60.0, 15.0
GRACE = 60.0


@dataclass(frozen=True)
class Query:
    """Questions of one round; µs."""

    p50: float
    p95: float
    p99: float
    max: float
    cpu: float


@dataclass(frozen=True)
class Opening:
    """Opening an instrument in one round; ms."""

    median: float


@dataclass(frozen=True)
class Fleet:
    """Many instruments polled in one round."""

    readings: int
    late_percent: float
    cpu_percent: float
    cpu_us: float


P50: Metric[Query] = Metric(
    "p50_us",
    "Median, µs (less is better):",
    lambda each: each.p50,
    1,
    more_is_better=False,
    beside_floor=True,
)
P95: Metric[Query] = Metric(
    "p95_us", "95th percentile, µs:", lambda each: each.p95, 1, more_is_better=False
)
P99: Metric[Query] = Metric(
    "p99_us", "99th percentile, µs:", lambda each: each.p99, 1, more_is_better=False
)
MAX: Metric[Query] = Metric(
    "max_us", "Longest, µs:", lambda each: each.max, 0, more_is_better=False
)
QUERY_CPU: Metric[Query] = Metric(
    "cpu_us",
    "CPU of the process, µs a question, from the scheduler to the typed answer:",
    lambda each: each.cpu,
    1,
    more_is_better=False,
)
QUERY_METRICS = [P50, P95, P99, MAX, QUERY_CPU]
OPENING: Metric[Opening] = Metric(
    "open_ms",
    "From the path of a port to an instrument that can be asked, ms (less is better); the floor"
    " asks Penstock's questions by write(2) and read(2):",
    lambda each: each.median,
    2,
    more_is_better=False,
)
LATE: Metric[Fleet] = Metric(
    "late_percent",
    "Polls that came more than half a period after their slot, or not at all, % (less is better):",
    lambda each: each.late_percent,
    3,
    more_is_better=False,
)
CPU_SHARE: Metric[Fleet] = Metric(
    "cpu_percent",
    "CPU of the process, % of a core:",
    lambda each: each.cpu_percent,
    1,
    more_is_better=False,
)
POLL_CPU: Metric[Fleet] = Metric(
    "cpu_us",
    "CPU of the process, µs a poll, its recorder included:",
    lambda each: each.cpu_us,
    1,
    more_is_better=False,
)
FLEET_METRICS = [LATE, CPU_SHARE, POLL_CPU]
COSTS: list[Cost[Any]] = [Cost(P50, Query), Cost(OPENING, Opening), Cost(POLL_CPU, Fleet)]
COMPARISON_OPTIONS = ["--part", "query", "--cmd", "ve,poll", "--eager", "off", "--n", "500"]
CHART = Bars("One question, eager tasks off (less is better)", "µs, median", P50)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each (3)")
    parser.add_argument("--n", type=int, default=1000, help="questions of a round (1000)")
    add_choices(parser, "--cmd", "command", COMMANDS, described="of ve,gs,poll")
    add_choices(parser, "--eager", "setting", EAGER, described="eager tasks: off,on")
    parser.add_argument("--port", help="a real instrument's port; then only questions are measured")
    parser.add_argument("--unit", default="A", help="its unit id (A)")
    parser.add_argument("--firmware", default="10v20", help="its firmware (10v20)")
    parser.add_argument("--baud", type=int, default=115_200, help="its baud rate (115200)")
    parser.add_argument("--device", default="simulated controller", help="its name in the table")
    parser.add_argument("--converter", default="pty", help="host and converter, for the table")
    add_choices(parser, "--part", "part", PARTS)
    parser.add_argument("--ports", type=int, default=16, help="devices polled at once (16)")
    parser.add_argument("--rate", type=float, default=100.0, help="polls a second of each (100)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of polling at once ({SECONDS:g})"
    )
    add_choices(parser, "--contenders", "contender", CONTENDERS)
    parser.add_argument("--quick", action="store_true", help="1 round, 100 questions, 2 seconds")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds, options.n, options.seconds = 1, 100, 2.0
    method = Method(
        {
            "rounds": options.rounds,
            "questions": options.n,
            "ports": options.ports,
            "rate_hz": options.rate,
            "seconds": options.seconds,
            "core": cores.server,
        }
    )
    report = Report.begin("alicat", machine_facts(PACKAGES), method)
    parts = {"query": _measure_questions, "open": _measure_opening, "fleet": _measure_fleet}
    for part in options.part if options.port is None else ["query"]:
        parts[part](options, cores, say, report)
    return report


# ---- one question -----------------------------------------------------------------------------


def _measure_questions(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    def measure_round(row: tuple[str, str], name: str) -> Query:
        command, eager = row
        arguments = ["--cmd", command, "--n", str(options.n), *_line(options)]
        if eager == "on":
            arguments.append("--eager")
        return Query(**_output("query.py", name, arguments, cores))

    comparisons = compare_in_rounds(
        {(command, eager): (command, eager) for command in options.cmd for eager in options.eager},
        options.contenders,
        options.rounds,
        measure_round,
        say,
    )
    report.add_part(
        "query",
        comparisons,
        ["question", "eager tasks"],
        QUERY_METRICS,
        "## A question",
        f"{options.n} questions one after another, answers decoded: `VE` (firmware), `GS` (gas), a"
        " data frame. The floor is write(2) and read(2).",
        shown=[P50, QUERY_CPU],
        label=None,
    )
    report.add(
        "Median of the rounds in ms, as on alicatlib's page:", _as_their_page(options, comparisons)
    )
    report.charts["alicat"] = CHART.drawn(
        [each for each in comparisons if each.labels[1] == options.eager[0]]
    )


def _as_their_page(options: argparse.Namespace, comparisons: Sequence[Comparison[Query]]) -> str:
    header = ["library", "host / converter", "device + firmware", "baud", "cmd", "eager"]
    header += ["n", "p50", "p95", "p99", "max"]
    rows = []
    for comparison in comparisons:
        command, eager = comparison.labels
        for name in contenders_of(comparisons):
            if not comparison.samples(name):
                continue
            figures = [
                f"{spread(comparison.values(name, metric)).median / 1000:.3f}"
                for metric in (P50, P95, P99, MAX)
            ]
            line = [options.converter, f"{options.device} {options.firmware}", str(options.baud)]
            rows.append([name, *line, command.upper(), eager, str(options.n), *figures])
    return markdown_table(header, rows, labels=6)


def _line(options: argparse.Namespace) -> list[str]:
    line = ["--unit", options.unit, "--firmware", options.firmware, "--baud", str(options.baud)]
    return line if options.port is None else [*line, "--port", options.port]


# ---- opening ----------------------------------------------------------------------------------


def _measure_opening(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    def measure_round(row: str, name: str) -> Opening:
        times = _output("opening.py", name, ["--n", "5", *_line(options)], cores)
        return Opening(spread(times).median)

    # The other loops add nothing to what is a matter of waiting.
    chosen = [name for name in options.contenders if name in (FLOOR, OURS, "alicatlib", "alicat")]
    report.add_part(
        "open",
        compare_in_rounds(
            {("open_device",): "opening"}, chosen, options.rounds, measure_round, say
        ),
        [""],
        [OPENING],
        "## Opening",
        "alicat identifies nothing; it is asked for a frame and for the firmware.",
    )


# ---- many instruments -------------------------------------------------------------------------


def _measure_fleet(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    def measure_round(row: str, name: str) -> Fleet:
        seconds = options.seconds if name == OURS else min(options.seconds, PEER_SECONDS)
        arguments = ["--ports", str(options.ports), "--rate", str(options.rate)]
        arguments += ["--seconds", str(seconds)]
        return Fleet(**_output("fleet.py", name, arguments, cores, seconds))

    chosen = [name for name in options.contenders if name in (OURS, "alicatlib", "alicat")]
    label = f"{options.ports} at {options.rate:g} Hz"
    report.add_part(
        "fleet",
        compare_in_rounds({(label,): label}, chosen, options.rounds, measure_round, say),
        ["devices"],
        FLEET_METRICS,
        "## Many devices",
        "Each device on a port of its own, polled by its library's recorder for"
        f" {options.seconds:g} s (the others: at most {PEER_SECONDS:g} s) by one process on one"
        " core. alicat has no recorder: a task a device sleeps until each slot. The far end judges"
        " what is late.",
    )


def _output(
    program: str, name: str, arguments: Sequence[str], cores: Cores, seconds: float = 0.0
) -> Any:
    command = [sys.executable, str(PROGRAMS / program), "--contender", CONTENDERS[name], *arguments]
    return figures_of(command, cores.server, timeout=seconds + GRACE)
