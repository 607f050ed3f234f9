"""Serial soak: eight ports under random disturbances on four loops, every byte checked.

``benchmarks/serial_ports/soak.py`` documents the disturbances and the checks.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import Failed, Unavailable, figures_of
from benchmarks.measure.tables import markdown_table
from benchmarks.serial_ports.libraries import LOOPS_OF

SUMMARY = "Serial soak: bytes lost, doubled or out of order"
COSTS: list[Cost[Any]] = []
COMPARISON_OPTIONS: list[str] = []

LOOPS = LOOPS_OF["penstock"]
GRACE = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--seconds", type=float, default=150, help="length on each loop (150)")
    parser.add_argument("--ports", type=int, default=8, help="ports at once (8)")
    add_choices(parser, "--loops", "loop", LOOPS)
    parser.add_argument("--quick", action="store_true", help="3 seconds")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Soak on each loop; one wrong byte is a failure of the page."""
    if options.quick:
        options.seconds = 3.0
    facts = machine_facts(["penstock", "anyio", "trio", "uvloop"])
    results: dict[str, Any] = {}
    failures, rows = [], []
    for loop in options.loops:
        say(f"{loop}: {options.ports} ports for {options.seconds:g} s")
        command = [sys.executable, str(BENCHMARKS / "serial_ports" / "soak.py"), "--loop", loop]
        command += ["--ports", str(options.ports), "--seconds", str(options.seconds)]
        try:
            found = figures_of(command, cores.server, timeout=options.seconds + GRACE)
        except (Unavailable, Failed) as error:
            results[loop] = {"missing": str(error)}
            failures.append(f"{loop}: {error}")
            continue
        results[loop] = found
        rows.append(
            [
                loop,
                f"{found['seconds']:.0f} s",
                *(f"{found[key]:,}".replace(",", " ") for key in _SHOWN),
            ]
        )
    return Report(
        results={"page": "serial_soak", "machine": facts, "ports": options.ports, "loops": results},
        markdown="\n\n".join(
            [
                describe(facts),
                f"{options.ports} ports. Each received byte and each sent frame was compared; the"
                " first wrong one ends the run, and then nothing is published.",
                markdown_table(["loop", "length", *_SHOWN.values()], rows),
            ]
        ),
        failures=failures,
    )


_SHOWN = {
    "received_bytes": "bytes received",
    "sent_frames": "frames sent",
    "cancelled_receives": "receives cancelled",
    "cancelled_sends": "sends cancelled",
    "reconfigurations": "reconfigurations",
}
