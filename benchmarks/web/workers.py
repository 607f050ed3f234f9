"""Two workers over one, beside a raw epoll server of one and of two processes.

Servers and load share the machine's cores, so what two workers gain is compared with what the floor
gains from its second process under the same load.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure.closed_loop import RATE, Loaded, Sample, in_turns, serving
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Say
from benchmarks.measure.spread import paired_ratio
from benchmarks.measure.tables import figure
from benchmarks.web.content import HELLO

__all__ = ["workers_comparison", "workers_sentence"]

TWO = "-2-workers"
REQUEST_BYTES = "73"


def workers_comparison(options: argparse.Namespace, native: Path, say: Say) -> Comparison[Sample]:
    """Measure one and two workers of the floor and of Penstock, in turn."""
    count = str(options.connections)

    @contextmanager
    def serve(name: str) -> Iterator[Loaded]:
        workers = "2" if name.endswith(TWO) else "1"
        if name.startswith(FLOOR):
            command = [str(native / "echo_floor"), "--workers", workers]
            load = [str(native / "echo_client"), "--size", REQUEST_BYTES]
        else:
            command = [sys.executable, str(BENCHMARKS / "asgi_server.py"), "--server", OURS]
            command += ["--workers", workers]
            load = [str(native / "http_client"), "--body", HELLO]
        load += ["--connections", count, "--port"]
        with serving(command, lambda port: [*load, port], None) as loaded:
            yield loaded

    names = [FLOOR, FLOOR + TWO, OURS, OURS + TWO]
    outcomes = in_turns(names, options, serve, report=lambda line: say(f"workers: {line}"))
    return Comparison(("2 workers over 1",), outcomes)


def workers_sentence(comparison: Comparison[Sample]) -> str:
    """The ratios of two workers to one."""
    parts = []
    for name in (OURS, FLOOR):
        one, two = comparison.values(name, RATE), comparison.values(name + TWO, RATE)
        if one and two:
            parts.append(f"{name} {figure(paired_ratio(two, one), 2)}")
    return f"Requests per second of two workers over one, on all cores: {', '.join(parts)}."
