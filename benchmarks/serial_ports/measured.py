"""What the pages about serial ports share: their programs, and the rows of many ports."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison, compare_in_rounds
from benchmarks.measure.contenders import OURS
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Say
from benchmarks.measure.processes import figures_of

PROGRAMS = BENCHMARKS / "serial_ports"
TIMEOUT = 120.0
CONTENDERS_ARE = "library@loop, or the name of a blocking library"
OWN_LOOP = "penstock's loop, the others on their best"
"""The label of a row in which each library runs on its best loop."""
ONE_READ = "pyserial, one read"
"""pyserial's ``read`` of a whole frame, in place of ``read_until``, which reads byte by byte."""


@dataclass(frozen=True)
class Fleet:
    """A round of polling many ports."""

    seconds: float
    cpu_seconds: float
    polls: int = 0
    threads: int = 0


def output(program: str, arguments: Sequence[str], cores: Cores) -> dict[str, Any]:
    """The figures of a program; errors are those of :func:`benchmarks.measure.processes.run`."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    figures: dict[str, Any] = figures_of(command, cores.server, timeout=TIMEOUT)
    return figures


def poll_ports(
    rows: Mapping[tuple[str, ...], tuple[int, str]],
    contenders: Sequence[str],
    rounds: int,
    cores: Cores,
    say: Say,
) -> list[Comparison[Fleet]]:
    """Poll many ports at once. Penstock is the contender on its own loop.

    Args:
        rows: the number of ports and what their far ends are, by the labels of the row.
        contenders: who takes turns.
        rounds: of each.
        cores: the programs run on that of the server.
        say: takes the lines of progress.
    """

    def measure_round(row: tuple[int, str], name: str) -> Fleet:
        ports, far_end = row
        arguments = ["--contender", name, "--ports", str(ports), "--far-end", far_end]
        return Fleet(**output("fan_out.py", arguments, cores))

    comparisons = compare_in_rounds(rows, contenders, rounds, measure_round, say)
    for comparison in comparisons:
        own = comparison.outcomes.pop(f"{OURS}@{OURS}", None)
        if own is not None:
            comparison.outcomes = {OURS: own, **comparison.outcomes}
    return comparisons
