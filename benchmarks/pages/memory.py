"""Memory: the cost of an idle connection, and what closed connections leave behind.

The echo page's servers in the style ``protocol``. A connection counts once it has sent one message
and received the echo. A round has two servers: one for connections that stay open, one for
connections that close.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric, compare_in_rounds
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.echo_stand import EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.memory import descriptors, resident_bytes
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_loops
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import Server, figures_of, server

SUMMARY = "Memory: idle connections, and connections that came and went"

STYLE = "protocol"
OTHER_DESCRIPTORS = 200  # of a process besides its connections
AT_ONCE = 100  # connections open at once during the churn
SETTLING = 2000  # connections before the growth is measured
HOLD_TIMEOUT = 120.0
CHURN_TIMEOUT = 300.0


@dataclass(frozen=True)
class Sample:
    """One round of one contender, in bytes of resident memory."""

    idle_connections: int
    bytes_at_start: int
    bytes_idle: int
    bytes_settled: int
    bytes_churned: int

    @property
    def bytes_a_connection(self) -> float:
        """The memory of one idle connection."""
        return (self.bytes_idle - self.bytes_at_start) / self.idle_connections

    @property
    def growth(self) -> float:
        """Memory after the whole churn relative to that after its first part."""
        return self.bytes_churned / self.bytes_settled

    def __str__(self) -> str:
        return (
            f"{self.bytes_a_connection:.0f} bytes an idle connection,"
            f" {self.bytes_settled >> 10} KiB to {self.bytes_churned >> 10} KiB"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser)
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections (10000)")
    parser.add_argument(
        "--churn", type=int, default=100_000, help="connections that come and go (100000)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each (2)")
    parser.add_argument("--quick", action="store_true", help="1 round, 20000 come and go")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each contender in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    if options.quick:
        options.rounds, options.churn = 1, 20_000
    idle, churn = options.idle, options.churn
    stand = EchoStand(build_native(), cores)
    with descriptors(idle + OTHER_DESCRIPTORS):
        comparisons = compare_in_rounds(
            {(STYLE,): stand},
            [FLOOR, *options.loops],
            options.rounds,
            lambda stand, name: measure_round(stand, name, idle, churn),
            say,
        )
    method = Method(
        {
            "rounds": options.rounds,
            "idle_connections": idle,
            "churned_connections": churn,
            "settling_connections": min(SETTLING, churn),
        },
        f"Median of {options.rounds} rounds with the lowest and highest, contenders in turn.",
    )
    return page_of(idle, churn).report(comparisons, facts, method)


def page_of(idle: int, churn: int) -> DeclaredPage:
    """The page for numbers of connections, which its headings name."""
    metrics = metrics_of(idle, churn)
    memory = Bars("Resident memory of an idle connection (less is better)", "B", metrics[0])
    return DeclaredPage("memory", ["style"], metrics, {"memory": memory})


def metrics_of(idle: int, churn: int) -> list[Metric[Sample]]:
    """The figures of the page for a number of connections."""
    settling = min(SETTLING, churn)
    return [
        Metric(
            "bytes_per_idle_connection",
            f"Resident bytes per connection, of {idle} idle ones (less is better):",
            lambda sample: sample.bytes_a_connection,
            digits=0,
            more_is_better=False,
        ),
        Metric(
            "resident_bytes_after_churn",
            f"Resident MiB after {churn} connections came and went (less is better):",
            lambda sample: float(sample.bytes_churned),
            digits=1,
            scale=float(1 << 20),
            more_is_better=False,
        ),
        Metric(
            "growth_by_churn",
            f"The same over the resident memory after the first {settling} (1 is level):",
            lambda sample: sample.growth,
            digits=3,
            more_is_better=False,
        ),
    ]


# The numbers of connections appear only in the headings.
COSTS = [Cost(metrics_of(1, 1)[0], Sample)]
COMPARISON_OPTIONS = ["--idle", "2000", "--churn", "2000"]


def measure_round(stand: EchoStand, name: str, idle: int, churn: int) -> Sample:
    """One round of one contender."""
    command = stand.server_command(name, STYLE)
    with server(command, stand.cores.server) as running:
        # The first connection loads and caches what all later ones share.
        _come_and_go(stand, running, 1)
        start = resident_bytes(running.pid)
        client = _client(stand, running, "--connections", idle)
        with server(client, stand.cores.client, ready_timeout=HOLD_TIMEOUT):
            while_idle = resident_bytes(running.pid)
    with server(command, stand.cores.server) as running:
        settling = min(SETTLING, churn)
        _come_and_go(stand, running, settling)
        settled = resident_bytes(running.pid)
        if churn > settling:
            _come_and_go(stand, running, churn - settling)
        churned = resident_bytes(running.pid)
    return Sample(idle, start, while_idle, settled, churned)


def _client(stand: EchoStand, running: Server, *options: object) -> list[str]:
    program = str(stand.native / "connection_client")
    return [program, "--port", running.ready_line, *(str(option) for option in options)]


def _come_and_go(stand: EchoStand, running: Server, total: int) -> None:
    command = _client(stand, running, "--connections", AT_ONCE, "--total", total)
    counted = figures_of(command, stand.cores.client, timeout=CHURN_TIMEOUT)
    assert counted == {"connections": total}
