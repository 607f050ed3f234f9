"""Start: what importing an event loop adds to starting Python.

Processes are started in turn, ``python -c pass`` and ``python -c "import X"``, and awaited to their
end. A first, unmeasured start of each writes the bytecode.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart, Panel
from benchmarks.measure.processes import Launch, launch
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.spread import Spread, spread
from benchmarks.measure.tables import figure, markdown_table

SUMMARY = "Start: time to import"

BARE = "bare Python"
OURS = "penstock"
MODULES = [OURS, "asyncio", "uvloop", "zloop", "rloop"]


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
        command = [sys.executable, "-c", "pass" if name == BARE else f"import {name}"]
        if name not in warmed:
            launch(command, cores.server)
            warmed.add(name)
        return Sample(**asdict(launch(command, cores.server)))

    outcomes = alternate([BARE, *MODULES], rounds, start, report=say)
    missing = outcomes[OURS].missing
    return Report(
        results={
            "page": "start",
            "machine": facts,
            "rounds": rounds,
            "contenders": {name: _as_json(name, outcomes) for name in outcomes},
        },
        markdown=_as_markdown(outcomes, rounds, facts),
        charts={"start": _chart(outcomes)},
        failures=[f"{OURS}: {missing}"] if missing is not None else [],
    )


def _added_ms(name: str, outcomes: dict[str, Outcome[Sample]]) -> Spread:
    """Milliseconds over the bare start of the same round."""
    pairs = zip(outcomes[name].samples, outcomes[BARE].samples, strict=True)
    return spread([(sample.seconds - bare.seconds) * 1e3 for sample, bare in pairs])


def _wall_ms(samples: Sequence[Sample]) -> Spread:
    return spread([sample.seconds * 1e3 for sample in samples])


def _cpu_ms(samples: Sequence[Sample]) -> Spread:
    return spread([sample.cpu_seconds * 1e3 for sample in samples])


def _as_json(name: str, outcomes: dict[str, Outcome[Sample]]) -> dict[str, object]:
    outcome = outcomes[name]
    if outcome.missing is not None:
        return {"missing": outcome.missing}
    return {
        "wall_ms": _wall_ms(outcome.samples).as_json(),
        "cpu_ms": _cpu_ms(outcome.samples).as_json(),
        "over_bare_ms": _added_ms(name, outcomes).as_json(),
        "rounds": [asdict(sample) for sample in outcome.samples],
    }


def _as_markdown(
    outcomes: dict[str, Outcome[Sample]], rounds: int, facts: dict[str, object]
) -> str:
    rows = []
    for name, outcome in outcomes.items():
        if outcome.missing is not None:
            rows.append([name, "n/a", "n/a", outcome.missing])
            continue
        added = "" if name == BARE else figure(_added_ms(name, outcomes), 1)
        cpu, wall = _cpu_ms(outcome.samples), _wall_ms(outcome.samples)
        rows.append([name, figure(wall, 1), figure(cpu, 1), added])
    header = ["import", "start to end, ms", "CPU, ms", "over bare Python, ms"]
    explained = f"Median of {rounds} starts with the fastest and slowest, in turn, on one core."
    return "\n\n".join([describe(facts), explained, markdown_table(header, rows)])


def _chart(outcomes: dict[str, Outcome[Sample]]) -> Chart:
    shown: dict[str, Sequence[Spread | None]] = {
        name: [None if outcome.missing is not None else _added_ms(name, outcomes)]
        for name, outcome in outcomes.items()
        if name != BARE
    }
    return Chart("Import over bare Python (less is better)", "ms", [Panel("", ["import"], shown)])
