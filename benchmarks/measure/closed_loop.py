"""One round of a server under a closed loop: a load that keeps one request in flight a connection.

The load is a program that prints one JSON line: ``requests``, ``seconds``, ``server_cpu_seconds``,
``client_cpu_seconds`` and ``latency_us`` with ``p50`` and ``p99``, all of the timed region. It
takes ``--server-pid``, ``--seconds``, ``--warmup`` and ``--requests``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric
from benchmarks.measure.processes import Failed, Server, Unavailable, run, server
from benchmarks.measure.rounds import Outcome
from benchmarks.measure.sanity import check_requests

GRACE = 30.0  # seconds for a client beyond what its timed region takes
# A load before the measured one, its connections opened and closed. glibc serves the 256 KiB that
# asyncio and others receive into by mmap and munmap until the first such block is freed whole,
# which the end of a connection does: before that asyncio's protocol costs three times as much, for
# ever. A server in use has seen connections end, so that state is not the one to measure.
SETTLING_REQUESTS = 500
NO_LATENCY = {"p50": 0.0, "p99": 0.0}  # of a load that has no replies to wait for

Figures = dict[str, Any]
Found = TypeVar("Found")
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


@dataclass(frozen=True)
class Loaded:
    """A server that is up and settled, and the command of its load."""

    running: Server
    client: Sequence[str]
    cores: Cores
    check: Callable[..., None] = check_requests

    def turn(self, options: argparse.Namespace) -> Sample:
        """Load the server for ``options.seconds``; errors as of :meth:`load`."""
        return self.load(
            "--seconds", options.seconds, warmup=options.warmup, at_least=options.seconds
        )

    def load(self, *amount: object, warmup: float, at_least: float = 0) -> Sample:
        """Load the server with an *amount* in the load's own options.

        It takes ``at_least`` so many seconds.

        Raises:
            Failed: if it or its load breaks, a wrong reply included.
            Impossible: if the figures cannot be true.
        """
        timed = ["--server-pid", self.running.pid, *amount, "--warmup", warmup]
        timeout = at_least + warmup + GRACE
        before = time.monotonic()
        figures = run_load(self.client, self.cores, *timed, timeout=timeout)
        outside = time.monotonic() - before
        self.check(
            requests=figures["requests"],
            seconds=figures["seconds"],
            asked_seconds=at_least,
            outside_seconds=outside,
            cpu=figures["server_cpu_seconds"],
        )
        return Sample(
            requests=figures["requests"],
            seconds=figures["seconds"],
            server_cpu_seconds=figures["server_cpu_seconds"],
            client_cpu_seconds=figures["client_cpu_seconds"],
            latency_p50_us=figures.get("latency_us", NO_LATENCY)["p50"],
            latency_p99_us=figures.get("latency_us", NO_LATENCY)["p99"],
        )


@contextmanager
def serving(command: Sequence[str], load: Load, cores: Cores) -> Iterator[Loaded]:
    """Start a server and settle it; it ends with the block.

    Raises:
        Unavailable: if the server cannot do what is asked.
        Failed: if it breaks.
    """
    with server(command, cores.server) as running:
        client = load(running.ready_line)
        settle(client, cores)
        yield Loaded(running, client, cores)


def in_turns(
    contenders: Sequence[str],
    options: argparse.Namespace,
    serve: Callable[[str], AbstractContextManager[Loaded]],
    report: Callable[[str], None],
) -> dict[str, Outcome[Sample]]:
    """Load the servers that *serve* starts in ``options.turns`` turns, ``options.rounds`` times.

    All are up at once, so that a turn can be short: the next one's comes before the machine has
    changed. Each round starts them anew, because where a process lies in memory costs or gains too.
    """
    outcomes: dict[str, Outcome[Sample]] = {name: Outcome() for name in contenders}

    def attempt(name: str, action: Callable[[], Found]) -> Found | None:
        outcome = outcomes[name]
        if outcome.missing is not None:
            return None
        try:
            return action()
        except (Unavailable, Failed) as error:
            outcome.samples.clear()
            outcome.missing = str(error)
            report(f"{name}: n/a, {error}")
            return None

    for number in range(1, options.rounds + 1):
        with ExitStack() as running:
            loaded = {
                name: attempt(name, partial(running.enter_context, serve(name)))
                for name in contenders
            }
            for _ in range(options.turns):
                for name, each in loaded.items():
                    sample = attempt(name, partial(each.turn, options)) if each else None
                    if sample is not None:
                        outcomes[name].samples.append(sample)
        for name, outcome in outcomes.items():
            if outcome.samples:
                report(f"{name}: round {number} of {options.rounds}: {outcome.samples[-1]} at last")
    return outcomes


def protocol_facts(options: argparse.Namespace, cores: Cores) -> dict[str, object]:
    """How it was measured, ready for JSON."""
    return {
        "rounds": options.rounds,
        "turns": options.turns,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "server_core": cores.server,
        "client_core": cores.client,
        "pinned_apart": cores.apart,
    }


def protocol_sentence(options: argparse.Namespace) -> str:
    """How it was measured, for a page."""
    return (
        f"Median of {options.rounds} × {options.turns} turns of {options.seconds:g} s with the"
        " outer deciles (of up to 20, the lowest and the highest); server and client on a core"
        " each."
    )
