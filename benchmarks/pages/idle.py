"""Idle: system calls and CPU time per second of a loop with a listening server and no work.

Two passes of the echo server without a client: one under strace for the system calls, one without
for the CPU time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.cpu_time import cpu_time_ns
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import server
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.syscalls import calls_between, traced
from benchmarks.measure.tables import markdown_table

SUMMARY = "Idle: system calls and CPU time of a loop without work"
COSTS: list[Cost[Any]] = []
COMPARISON_OPTIONS: list[str] = []

OURS = "penstock"
LOOPS = [OURS, "asyncio", "uvloop", "zloop", "rloop"]
SETTLE = 0.3  # after the ready line, a loop may still finish its start-up


@dataclass(frozen=True)
class Sample:
    """An idle span of one loop."""

    calls: dict[str, int]
    cpu_us: float

    def __str__(self) -> str:
        return f"{sum(self.calls.values())} system calls, {self.cpu_us:.0f} µs of CPU"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--seconds", type=float, default=1.0, help="length of the span (1)")
    parser.add_argument("--quick", action="store_true", help="0.2 s")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Observe each loop while it is idle."""
    if options.quick:
        options.seconds = 0.2
    facts = machine_facts([name for name in LOOPS if name != "asyncio"])

    def watch(name: str) -> Sample:
        command = [sys.executable, str(BENCHMARKS / "echo_server.py")]
        command += ["--loop", name, "--style", "protocol"]
        calls = _idle_calls(command, cores.server, options.seconds)
        return Sample(dict(calls), _idle_cpu_us(command, cores.server, options.seconds))

    outcomes = alternate(LOOPS, 1, watch, report=say)
    missing = outcomes[OURS].missing
    return Report(
        results={
            "page": "idle",
            "machine": facts,
            "seconds": options.seconds,
            "contenders": {name: _as_json(outcome) for name, outcome in outcomes.items()},
        },
        markdown=_as_markdown(outcomes, options.seconds, facts),
        failures=[f"{OURS}: {missing}"] if missing is not None else [],
    )


def _idle_calls(command: list[str], core: int, seconds: float) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with server(traced(command, log), core):
            time.sleep(SETTLE)
            begin = time.time()
            time.sleep(seconds)
            end = time.time()
        return calls_between(log.read_text(errors="replace"), begin, end)


def _idle_cpu_us(command: list[str], core: int, seconds: float) -> float:
    with server(command, core) as running:
        time.sleep(SETTLE)
        before = cpu_time_ns(running.pid)
        time.sleep(seconds)
        return (cpu_time_ns(running.pid) - before) / 1e3


def _as_json(outcome: Outcome[Sample]) -> dict[str, object]:
    if outcome.missing is not None:
        return {"missing": outcome.missing}
    (sample,) = outcome.samples
    return {"syscalls": sample.calls, "cpu_us": sample.cpu_us}


def _as_markdown(
    outcomes: dict[str, Outcome[Sample]], seconds: float, facts: dict[str, object]
) -> str:
    rows = []
    for name, outcome in outcomes.items():
        if outcome.missing is not None:
            rows.append([name, "n/a", "n/a", outcome.missing])
            continue
        (sample,) = outcome.samples
        calls = sorted(sample.calls.items())
        which = ", ".join(f"{count} {call}" for call, count in calls) or "none"
        rows.append([name, str(sum(sample.calls.values())), f"{sample.cpu_us:.0f}", which])
    header = ["loop", "system calls", "CPU, µs", "which"]
    explained = f"A loop with a listening TCP server and no client, watched for {seconds:g} s."
    return "\n\n".join([describe(facts), explained, markdown_table(header, rows)])
