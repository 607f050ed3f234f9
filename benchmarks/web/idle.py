"""The memory of idle keep-alive connections, beside a raw epoll server's."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison, Metric
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.memory import descriptors, process_tree, resident_bytes
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Say
from benchmarks.measure.processes import run, server
from benchmarks.measure.rounds import alternate
from benchmarks.web.content import HELLO

__all__ = ["IdleSample", "idle_comparison", "idle_metrics"]

OTHER_DESCRIPTORS = 200
HOLD_TIMEOUT = 120.0


@dataclass(frozen=True)
class IdleSample:
    """One round, in bytes of resident memory of all processes."""

    connections: int
    bytes_at_start: int
    bytes_idle: int

    @property
    def bytes_a_connection(self) -> float:
        """The memory of one idle connection."""
        return (self.bytes_idle - self.bytes_at_start) / self.connections

    def __str__(self) -> str:
        return f"{self.bytes_a_connection:.0f} bytes an idle connection"


def idle_metrics(connections: int) -> list[Metric[IdleSample]]:
    """The figure, for a number of connections."""
    return [
        Metric(
            "bytes_per_idle_connection",
            f"Resident bytes per connection, of {connections} idle ones that have had a response"
            " (less is better):",
            lambda sample: sample.bytes_a_connection,
            digits=0,
            more_is_better=False,
            beside_floor=True,
        )
    ]


def idle_comparison(
    options: argparse.Namespace, cores: Cores, native: Path, say: Say
) -> Comparison[IdleSample]:
    """Measure each server once a round."""

    def watch(name: str) -> IdleSample:
        command = [sys.executable, str(BENCHMARKS / "asgi_server.py"), "--server", name]
        body = ["--body", HELLO]
        if name == FLOOR:
            command, body = [str(native / "echo_floor")], []
        with server(command, cores.server) as running:
            client = [str(native / "connection_client"), "--port", running.ready_line, *body]
            # The first connections load and cache what all later ones share.
            first = [*client, "--connections", "1", "--total", "100"]
            run(first, cores.client, timeout=HOLD_TIMEOUT)
            start = _resident(running.pid)
            holding = [*client, "--connections", str(options.idle)]
            with server(holding, cores.client, ready_timeout=HOLD_TIMEOUT):
                return IdleSample(options.idle, start, _resident(running.pid))

    names = [FLOOR, *options.servers]
    with descriptors(options.idle + OTHER_DESCRIPTORS):
        outcomes = alternate(
            names,
            min(options.rounds, 2),
            watch,
            report=lambda line: say(f"{options.idle} idle connections: {line}"),
        )
    return Comparison((f"{options.idle} idle connections",), outcomes)


def _resident(root: int) -> int:
    return sum(resident_bytes(process) for process in process_tree(root))
