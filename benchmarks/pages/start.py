"""Start: the time that an event loop adds to the start of Python.

Processes run in turn: bare Python, one import, and one import plus a loop that is created and
closed, because an import may defer work to the first loop. A first start of each is not measured;
it writes the bytecode.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart, Panel
from benchmarks.measure.processes import Launch, launch
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.spread import Spread, spread
from benchmarks.measure.tables import figure, markdown_table

SUMMARY = "Start: time to import, and to a first loop"
COSTS: list[Cost[Any]] = []
COMPARISON_OPTIONS: list[str] = []

BARE = "bare Python"
OURS = "penstock"
MODULES = [OURS, "asyncio", "uvloop", "zloop", "rloop"]


def with_loop(module: str) -> str:
    """The name of a module's contender that also creates a loop."""
    return f"{module} with a loop"


PROGRAMS = {BARE: "pass"}
PROGRAMS |= {module: f"import {module}" for module in MODULES}
PROGRAMS |= {
    with_loop(module): f"import {module}; {module}.new_event_loop().close()" for module in MODULES
}


@dataclass(frozen=True)
class Sample(Launch):
    """One start of Python."""

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.1f} ms, {self.cpu_seconds * 1e3:.1f} ms CPU"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=25, help="starts of each (25)")
    parser.add_argument("--quick", action="store_true", help="3 starts of each")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Start each in turn."""
    facts = machine_facts([name for name in MODULES if name != "asyncio"])
    rounds = 3 if options.quick else options.rounds
    warmed: set[str] = set()

    def start(name: str) -> Sample:
        command = [sys.executable, "-c", PROGRAMS[name]]
        if name not in warmed:
            launch(command, cores.server)
            warmed.add(name)
        return Sample(**asdict(launch(command, cores.server)))

    outcomes = alternate(list(PROGRAMS), rounds, start, report=say)
    return Report(
        results={
            "page": "start",
            "machine": facts,
            "rounds": rounds,
            "contenders": {name: _as_json(name, outcomes) for name in outcomes},
        },
        markdown=_as_markdown(outcomes, rounds, facts),
        charts={"start": _chart(outcomes)},
        failures=[
            f"{name}: {outcomes[name].missing}"
            for name in (OURS, with_loop(OURS))
            if outcomes[name].missing is not None
        ],
    )


def _over_bare_ms(name: str, outcomes: dict[str, Outcome[Sample]]) -> Spread | None:
    """Milliseconds beyond the bare start of the same round; None without rounds."""
    if outcomes[name].missing is not None:
        return None
    pairs = zip(outcomes[name].samples, outcomes[BARE].samples, strict=True)
    return spread([(sample.seconds - bare.seconds) * 1e3 for sample, bare in pairs])


def _as_json(name: str, outcomes: dict[str, Outcome[Sample]]) -> dict[str, object]:
    samples, over_bare = outcomes[name].samples, _over_bare_ms(name, outcomes)
    if over_bare is None:
        return {"missing": outcomes[name].missing}
    return {
        "program": PROGRAMS[name],
        "wall_ms": spread([sample.seconds * 1e3 for sample in samples]).as_json(),
        "cpu_ms": spread([sample.cpu_seconds * 1e3 for sample in samples]).as_json(),
        "over_bare_ms": over_bare.as_json(),
        "rounds": [asdict(sample) for sample in samples],
    }


def _as_markdown(
    outcomes: dict[str, Outcome[Sample]], rounds: int, facts: dict[str, object]
) -> str:
    rows = []
    for module in MODULES:
        over_bare = [_over_bare_ms(name, outcomes) for name in (module, with_loop(module))]
        rows.append(
            [module, *("n/a" if value is None else figure(value, 1) for value in over_bare)]
        )
    bare = figure(spread([sample.seconds * 1e3 for sample in outcomes[BARE].samples]), 1)
    explained = (
        f"Milliseconds over bare Python, which takes {bare} ms from start to end. Median of"
        f" {rounds} starts with the fastest and slowest, in turn, on one core."
    )
    header = ["", "import", "import, make and close a loop"]
    reasons = [
        f"- {outcomes[module].missing}"
        for module in MODULES
        if outcomes[module].missing is not None
    ]
    parts = [describe(facts), explained, markdown_table(header, rows)]
    if reasons:
        parts += ["Not measured (n/a):", "\n".join(reasons)]
    return "\n\n".join(parts)


def _chart(outcomes: dict[str, Outcome[Sample]]) -> Chart:
    values: dict[str, Sequence[Spread | None]] = {
        module: [_over_bare_ms(name, outcomes) for name in (module, with_loop(module))]
        for module in MODULES
    }
    panel = Panel("", ["import", "import, make and close a loop"], values)
    return Chart("Start, over bare Python (less is better)", "ms", [panel])
