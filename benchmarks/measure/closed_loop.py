"""One round of a server under a closed loop: a load that keeps one request in flight a connection.

The load is a program that prints one JSON line: ``requests``, ``seconds``, ``server_cpu_seconds``,
``client_cpu_seconds`` and ``latency_us`` with ``p50`` and ``p99``, all of the timed region. It
takes ``--server-pid``, ``--seconds``, ``--warmup`` and ``--requests``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric
from benchmarks.measure.processes import run, server
from benchmarks.measure.sanity import check_requests

GRACE = 30.0  # seconds for a client beyond what its timed region takes
# A load before the measured one, its connections opened and closed. glibc serves the 256 KiB that
# asyncio and others receive into by mmap and munmap until the first such block is freed whole,
# which the end of a connection does: before that asyncio's protocol costs three times as much, for
# ever. A server in use has seen connections end, so that state is not the one to measure.
SETTLING_REQUESTS = 500

Figures = dict[str, Any]
Load = Callable[[str], Sequence[str]]
"""The command of the load for the ready line of its server."""


@dataclass(frozen=True)
class Sample:
    """One round of one server."""

    requests: int
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    latency_p50_us: float
    latency_p99_us: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def cpu(self) -> float:
        """CPU microseconds of the server for a request."""
        return self.server_cpu_seconds / self.requests * 1e6

    def __str__(self) -> str:
        return f"{self.rate / 1e3:.1f} k req/s, {self.cpu:.2f} µs CPU a request"


RATE: Metric[Sample] = Metric(
    "requests_per_second",
    "Thousand requests a second (more is better):",
    lambda sample: sample.rate,
    digits=1,
    scale=1e3,
)
CPU: Metric[Sample] = Metric(
    "server_cpu_us_per_request",
    "Server CPU, µs a request (less is better):",
    lambda sample: sample.cpu,
    digits=2,
    more_is_better=False,
    beside_floor=True,
)
CPU_WITHOUT_FLOOR: Metric[Sample] = Metric(
    CPU.key, CPU.heading, CPU.value, CPU.digits, more_is_better=False
)


def run_load(
    load: Sequence[str], cores: Cores, *options: object, timeout: float = GRACE
) -> Figures:
    """Run the load to its end; the figures that it printed."""
    command = [*load, *(str(option) for option in options)]
    figures: Figures = json.loads(run(command, cores.client, timeout=timeout))
    return figures


def settle(load: Sequence[str], cores: Cores) -> None:
    """Let connections come and go; see SETTLING_REQUESTS."""
    run_load(load, cores, "--requests", SETTLING_REQUESTS, "--warmup", 0)


def closed_loop_round(
    command: Sequence[str], load: Load, cores: Cores, options: argparse.Namespace
) -> Sample:
    """Start the server, settle it, load it for ``options.seconds``, and end it.

    Raises:
        Unavailable: if the server cannot do what is asked.
        Failed: if one of the two breaks, a wrong reply included.
        Impossible: if the figures cannot be true.
    """
    with server(command, cores.server) as running:
        client = load(running.ready_line)
        settle(client, cores)
        timed = ["--server-pid", running.pid]
        timed += ["--seconds", options.seconds, "--warmup", options.warmup]
        timeout = options.seconds + options.warmup + GRACE
        before = time.monotonic()
        figures = run_load(client, cores, *timed, timeout=timeout)
        outside = time.monotonic() - before
    check_requests(
        requests=figures["requests"],
        seconds=figures["seconds"],
        asked_seconds=options.seconds,
        outside_seconds=outside,
        cpu=figures["server_cpu_seconds"],
    )
    return Sample(
        requests=figures["requests"],
        seconds=figures["seconds"],
        server_cpu_seconds=figures["server_cpu_seconds"],
        client_cpu_seconds=figures["client_cpu_seconds"],
        latency_p50_us=figures["latency_us"]["p50"],
        latency_p99_us=figures["latency_us"]["p99"],
    )


def protocol_facts(options: argparse.Namespace, cores: Cores) -> dict[str, object]:
    """How it was measured, ready for JSON."""
    return {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "server_core": cores.server,
        "client_core": cores.client,
        "pinned_apart": cores.apart,
    }


def protocol_sentence(options: argparse.Namespace) -> str:
    """How it was measured, for a page."""
    return (
        f"Median of {options.rounds} rounds of {options.seconds:g} s with the lowest and highest"
        " round; servers in turn, server and client on a core each."
    )
