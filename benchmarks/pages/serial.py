"""Serial ports: Penstock beside the other Python libraries, on each event loop.

All ports are raw pseudo-terminals, so that only the software is measured. Each contender is a
separate process (``benchmarks/serial_ports``), in turn, round after round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.affinity import Cores, kernel_workers_on
from benchmarks.measure.comparison import Comparison, Metric, contenders_of
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, in_lines, in_panels
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.options import add_choices, numbers
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import Failed, Unavailable, run
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.spread import paired_ratio, spread
from benchmarks.measure.syscalls import traced
from benchmarks.measure.tables import figure, markdown_table
from benchmarks.serial_ports.libraries import ASYNC_CONTENDERS, LOOPS_OF, split
from benchmarks.serial_ports.measured import (
    CONTENDERS_ARE,
    ONE_READ,
    OWN_LOOP,
    PROGRAMS,
    TIMEOUT,
    Fleet,
    output,
    poll_ports,
)

SUMMARY = "Serial ports: receive, exchange, cancel, many ports"

PACKAGES = ["penstock", *list(LOOPS_OF)[1:], "pyserial", "anyio", "trio", "uvloop"]
PARTS = ["loop", "blocking", "portal", "fan-out", "calls", "memory"]
SHARED_LOOPS = ["asyncio", "uvloop", "trio"]
BLOCKING = [FLOOR, OURS, "pyserial", "serialx", "anyserial"]
PORTS = [1, 4, 16]
FAR_ENDS = {"threads": "a thread each", "process": "one process"}
MARK = "measured part"


@dataclass(frozen=True)
class Latency:
    """One workload of one round; µs."""

    p50: float
    p99: float
    mean: float
    cpu: float
    p90: float = 0.0
    max: float = 0.0


P50: Metric[Latency] = Metric(
    "p50_us", "Median, µs (less is better):", lambda each: each.p50, 2, more_is_better=False
)
P99: Metric[Latency] = Metric(
    "p99_us", "99th percentile, µs:", lambda each: each.p99, 1, more_is_better=False
)
MAX: Metric[Latency] = Metric(
    "max_us", "Slowest, µs:", lambda each: each.max, 0, more_is_better=False
)
MEAN: Metric[Latency] = Metric(
    "mean_us", "Mean, µs:", lambda each: each.mean, 2, more_is_better=False
)
CPU: Metric[Latency] = Metric(
    "cpu_us", "CPU of the process, µs each:", lambda each: each.cpu, 2, more_is_better=False
)
SECONDS: Metric[Fleet] = Metric(
    "ms",
    "Wall clock, ms (less is better):",
    lambda each: each.seconds * 1e3,
    1,
    more_is_better=False,
)
FLEET_CPU: Metric[Fleet] = Metric(
    "cpu_ms",
    "CPU of the process, ms:",
    lambda each: each.cpu_seconds * 1e3,
    1,
    more_is_better=False,
)
LATENCIES = [P50, P99, MAX, MEAN, CPU]
COSTS: list[Cost[Any]] = [Cost(P50, Latency), Cost(SECONDS, Fleet)]
COMPARISON_OPTIONS = [
    *("--part", "loop,blocking,fan-out"),
    *("--count", "500", "--cancels", "20", "--ports", "16"),
]
RECEIVING = Bars("Receiving one byte (less is better)", "µs, median", P50, in_panels(in_lines))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each (7)")
    parser.add_argument("--count", type=int, default=2000, help="operations of a round (2000)")
    parser.add_argument("--cancels", type=int, default=200, help="cancellations of a round (200)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 200 operations")
    add_choices(parser, "--part", "part", PARTS)
    parser.add_argument("--ports", type=numbers, default=PORTS, help="ports polled at once: 1,4,16")
    contenders = [*ASYNC_CONTENDERS, *BLOCKING]
    add_choices(parser, "--contenders", "contender", contenders, described=CONTENDERS_ARE)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds = min(options.rounds, 2)
        options.count, options.cancels = 200, 10
    method = Method(
        {
            "rounds": options.rounds,
            "operations": options.count,
            "cancels": options.cancels,
            "core": cores.server,
        }
    )
    report = Report.begin("serial", machine_facts(PACKAGES), method)
    parts = {
        "loop": _measure_loops,
        "blocking": _measure_blocking,
        "portal": _measure_portal,
        "fan-out": _measure_fan_out,
        "calls": _measure_calls,
        "memory": _measure_memory,
    }
    with kernel_workers_on(cores.server) as pinned:
        report.results["kernel_workers_on_core"] = cores.server if pinned else None
        for part in options.part:
            parts[part](options, cores, say, report)
    return report


# ---- latencies --------------------------------------------------------------------------------


def _measure_loops(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    outcomes = _measure_program(
        "in_loop.py", _chosen(options, ASYNC_CONTENDERS), options, cores, say, ["--what", "times"]
    )
    floor = _measure_program("blocking.py", _chosen(options, [FLOOR]), options, cores, say)
    outcomes.update(floor)
    report.add("## In the event loop")
    for workload, title in (
        ("receive", "Receive one byte that waits; the write to the pty is within the time"),
        ("exchange", "Send a byte and receive the answer of a process on another core"),
        ("cancel", "Cancellation: how long after its deadline of 10 ms a receive returns"),
    ):
        comparisons = _by_loop(workload, outcomes)
        shown = [P50, P99] if workload == "cancel" else [P50, MEAN, CPU]
        _add(report, f"loop: {workload}", f"### {title}", comparisons, "loop", shown)
        if workload == "receive":
            report.charts["serial-receive"] = RECEIVING.drawn(comparisons)


def _measure_blocking(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    outcomes = _measure_program("blocking.py", _chosen(options, BLOCKING), options, cores, say)
    comparisons = [
        Comparison((workload,), _workload(workload, outcomes))
        for workload in ("receive", "exchange", "cancel")
    ]
    title = "## Without an event loop"
    _add(report, "blocking", title, comparisons, "operation", [P50, P99])


def _measure_portal(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    from benchmarks.serial_ports.portal import WORKLOADS

    contenders = [name for name in ASYNC_CONTENDERS if split(name)[0] in (OURS, "anyserial")]
    outcomes = _measure_program("portal.py", _chosen(options, contenders), options, cores, say)
    comparisons = [
        Comparison((workload, *row.labels), row.outcomes)
        for workload in WORKLOADS
        for row in _by_loop(workload, outcomes)
    ]
    report.add_part(
        "portal",
        comparisons,
        ["operation", "loop"],
        LATENCIES,
        "## anyserial's own page",
        "Each operation is a call into the event loop of another thread, as on that page.",
        shown=[P50, MAX],
    )


def _measure_program(
    program: str,
    contenders: Sequence[str],
    options: argparse.Namespace,
    cores: Cores,
    say: Say,
    arguments: Sequence[str] = (),
) -> dict[str, Outcome[dict[str, Any]]]:
    def measure_round(name: str) -> dict[str, Any]:
        limits = ["--count", str(options.count)]
        if program != "portal.py":
            limits += ["--cancels", str(options.cancels)]
        return output(program, ["--contender", name, *arguments, *limits], cores)

    return alternate(
        contenders,
        options.rounds,
        measure_round,
        report=lambda line: say(f"{program}: {line.split('{')[0]}"),
    )


def _workload(
    workload: str, outcomes: dict[str, Outcome[dict[str, Any]]]
) -> dict[str, Outcome[Latency]]:
    return {
        name: outcome.map(lambda sample: Latency(**sample[workload]))
        for name, outcome in outcomes.items()
    }


def _by_loop(
    workload: str, outcomes: dict[str, Outcome[dict[str, Any]]]
) -> list[Comparison[Latency]]:
    """A row for Penstock's loop, with each peer on its best loop, and one for each other loop."""
    latencies = _workload(workload, outcomes)
    floor = {FLOOR: latencies[FLOOR]} if FLOOR in latencies else {}
    own = dict(floor)
    for library, loops in LOOPS_OF.items():
        there = [latencies[name] for loop in loops if (name := f"{library}@{loop}") in latencies]
        if library == OURS:
            there = [latencies[name] for name in [f"{OURS}@{OURS}"] if name in latencies]
        measured = [outcome for outcome in there if outcome.samples]
        if measured:
            own[library] = min(
                measured, key=lambda each: spread([sample.p50 for sample in each.samples]).median
            )
        elif there:
            own[library] = there[0]
    rows = [Comparison((OWN_LOOP,), own)]
    for loop in SHARED_LOOPS:
        here = {
            library: latencies[name]
            for library in LOOPS_OF
            if (name := f"{library}@{loop}") in latencies
        }
        if here:
            rows.append(Comparison((loop,), {**floor, **here}))
    return rows


def _add(
    report: Report,
    part: str,
    title: str,
    comparisons: Sequence[Comparison[Latency]],
    label: str,
    shown: Sequence[Metric[Latency]],
) -> None:
    others = [name for name in contenders_of(comparisons) if name != OURS]

    def speed_up(comparison: Comparison[Latency], name: str) -> str:
        ours, theirs = comparison.values(OURS, P50), comparison.values(name, P50)
        return figure(paired_ratio(theirs, ours), 2) if ours and theirs else "n/a"

    rows = [[*each.labels, *(speed_up(each, name) for name in others)] for each in comparisons]
    further = ["How many times as fast as each, by the median:"]
    further += [markdown_table([label, *others], rows)]
    report.add_part(part, comparisons, [label], LATENCIES, title, shown=shown, further=further)


# ---- many ports -------------------------------------------------------------------------------


def _measure_fan_out(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    wanted = [name for name in ASYNC_CONTENDERS if split(name)[0] in (OURS, "anyserial")]
    contenders = _chosen(options, [*wanted, "pyserial"])
    if "pyserial" in contenders:
        contenders.append(ONE_READ)
    comparisons = poll_ports(
        {
            (str(ports), description): (ports, far_end)
            for far_end, description in FAR_ENDS.items()
            for ports in options.ports
        },
        contenders,
        options.rounds,
        cores,
        say,
    )
    report.add_part(
        "fan-out",
        comparisons,
        ["ports", "their far ends"],
        [SECONDS, FLEET_CPU],
        "## Many ports",
        "50 polls of every port with a reply of 48 bytes, from opening to closing; pyserial with a"
        " thread a port, by `read_until`, which reads byte by byte, and by one `read`.",
        further=[
            "Penstock's wall clock on its own loop over that on the other loops (below 1: its own"
            " is faster):",
            _to_itself(comparisons),
        ],
    )


def _to_itself(comparisons: Sequence[Comparison[Fleet]]) -> str:
    others = [f"{OURS}@{loop}" for loop in SHARED_LOOPS]

    def cell(comparison: Comparison[Fleet], name: str) -> str:
        ratio = comparison.ours_to(name, SECONDS)
        return "n/a" if ratio is None else figure(ratio, 2)

    rows = [[*each.labels, *(cell(each, name) for name in others)] for each in comparisons]
    return markdown_table(["ports", "their far ends", *others], rows, labels=2)


# ---- system calls and memory ------------------------------------------------------------------


def _measure_calls(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    count = 100
    rows, results = [], {}
    for what, contenders in (
        ("calls", ASYNC_CONTENDERS),
        ("available", [name for name in ASYNC_CONTENDERS if split(name)[0] in (OURS, "anyserial")]),
    ):
        for name in _chosen(options, contenders):
            arguments = ["--contender", name, "--what", what, "--count", str(count)]
            try:
                calls = _traced_calls(arguments, count, cores)
            except (Unavailable, Failed) as error:
                calls = Counter()
                say(f"{name}: n/a, {error}")
            operation = "receive(1)" if what == "calls" else "receive_available()"
            results[f"{operation} {name}"] = {
                call: number / count for call, number in calls.items()
            }
            reads = sum(calls[call] for call in ("read", "readv")) / count
            others = ", ".join(
                f"{number / count:.2g} {call}"
                for call, number in calls.most_common()
                if call not in ("read", "readv") and number >= count / 20
            )
            rows.append([operation, name, f"{reads:.2f}", others or "none"])
    report.results["system_calls"] = results
    report.add(
        "## System calls",
        "What an operation calls when data waits, by strace, without the write to the far end:",
        markdown_table(["operation", "contender", "reads", "others"], rows, labels=2),
    )


def _traced_calls(arguments: Sequence[str], count: int, cores: Cores) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = traced([sys.executable, str(PROGRAMS / "in_loop.py"), *arguments], log)
        run(command, cores.server, timeout=TIMEOUT)
        _, measured, _ = log.read_text().split(MARK)
    calls: Counter[str] = Counter()
    for line in measured.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3 and "(" in fields[2] and fields[2][0].isalpha():
            calls[fields[2].split("(", 1)[0]] += 1
    # Subtract the writes of the far end, and the one that carries the second mark.
    calls["write"] -= count + 1
    return +calls


def _measure_memory(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    contenders = [name for name in ASYNC_CONTENDERS if split(name)[0] in (OURS, "anyserial")]
    rows, results = [], {}
    for name in _chosen(options, contenders):
        try:
            found = output(
                "in_loop.py", ["--contender", name, "--what", "memory", "--count", "200"], cores
            )
        except (Unavailable, Failed) as error:
            say(f"{name}: n/a, {error}")
            continue
        results[name] = found
        ways = ("receive", "receive_into", "receive_available")
        rows.append([name, *(f"{found[way]['net']} ({found[way]['peak']})" for way in ways)])
    report.results["memory"] = results
    report.add(
        "## Memory",
        "Bytes that 200 calls left behind, and the most in use meanwhile, by tracemalloc:",
        markdown_table(["contender", "receive", "receive_into", "receive_available"], rows),
    )


def _chosen(options: argparse.Namespace, contenders: Sequence[str]) -> list[str]:
    return [name for name in contenders if name in options.contenders]
