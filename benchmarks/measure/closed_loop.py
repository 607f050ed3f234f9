"""One round of a server under a closed loop: one request in flight on each connection.

The load is a program that prints one JSON line: ``requests``, ``seconds``, ``server_cpu_seconds``,
``client_cpu_seconds`` and ``latency_us`` with ``p50``, ``p99`` and perhaps ``p999``, all of the
timed region. It takes ``--server-pid``, ``--seconds``, ``--warmup`` and ``--requests``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from benchmarks.measure.affinity import Cores
from benchmarks.measure.builds import Build, programs_of
from benchmarks.measure.comparison import Comparison, Metric
from benchmarks.measure.page import Method
from benchmarks.measure.processes import Server, figures_of, server
from benchmarks.measure.rounds import Outcome, about, entrants, shown
from benchmarks.measure.sanity import check_requests

GRACE = 30.0  # seconds for a client beyond its timed region
# A load before the measured one, whose connections open and close. asyncio and others receive into
# blocks of 256 KiB, which glibc serves by mmap and munmap until the first one is freed at the end
# of a connection. Until then asyncio's protocol costs three times as much. A server in use has seen
# connections end, so that is the state to measure.
SETTLING_REQUESTS = 500
NO_LATENCY = {"p50": 0.0, "p99": 0.0, "p999": 0.0}  # of a load without replies

Figures = dict[str, Any]
Found = TypeVar("Found")
Row = TypeVar("Row")
Load = Callable[[str], Sequence[str]]
"""Returns the command of the load, given the ready line of the server."""


@dataclass(frozen=True)
class Sample:
    """One round of one server."""

    requests: int
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    latency_p50_us: float
    latency_p99_us: float
    latency_p999_us: float = 0.0  # results before 2026-11-24 lack it

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def cpu(self) -> float:
        """CPU microseconds of the server per request."""
        return self.server_cpu_seconds / self.requests * 1e6

    def __str__(self) -> str:
        return f"{self.rate / 1e3:.1f} k req/s, {self.cpu:.2f} µs CPU per request"


RATE: Metric[Sample] = Metric(
    "requests_per_second",
    "Thousand requests per second (more is better):",
    lambda sample: sample.rate,
    digits=1,
    scale=1e3,
)
CPU: Metric[Sample] = Metric(
    "server_cpu_us_per_request",
    "Server CPU, µs per request (less is better):",
    lambda sample: sample.cpu,
    digits=2,
    more_is_better=False,
    beside_floor=True,
)
CPU_WITHOUT_FLOOR: Metric[Sample] = Metric(
    CPU.key, CPU.heading, CPU.value, CPU.digits, more_is_better=False
)

LATENCIES: list[Metric[Sample]] = [
    Metric(
        "latency_p50_us",
        "With most messages, the median of a round trip, µs (less is better):",
        lambda sample: sample.latency_p50_us,
        digits=1,
        more_is_better=False,
    ),
    Metric(
        "latency_p99_us",
        "Their 99th percentile, µs:",
        lambda sample: sample.latency_p99_us,
        digits=1,
        more_is_better=False,
    ),
    Metric(
        "latency_p999_us",
        "Their 99.9th percentile, µs:",
        lambda sample: sample.latency_p999_us,
        digits=1,
        more_is_better=False,
    ),
]
"""The distribution of round trips."""


def run_load(
    load: Sequence[str], cores: Cores | None, *options: object, timeout: float = GRACE
) -> Figures:
    """Run the load to its end and return the figures that it prints.

    With ``cores`` None it may run on any core.
    """
    command = [*load, *(str(option) for option in options)]
    # Compared builds share one load.
    with programs_of(None):
        figures: Figures = figures_of(command, cores.client if cores else None, timeout=timeout)
    return figures


def settle(load: Sequence[str], cores: Cores | None) -> None:
    """Open and close connections; see SETTLING_REQUESTS."""
    run_load(load, cores, "--requests", SETTLING_REQUESTS, "--warmup", 0)


@dataclass(frozen=True)
class Loaded:
    """A running, settled server and the command of its load.

    Attributes:
        around: entered for each load.
    """

    running: Server
    client: Sequence[str]
    cores: Cores | None
    check: Callable[..., None] = check_requests
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def turn(self, options: argparse.Namespace) -> Sample:
        """Load the server for ``options.seconds``; errors as of :meth:`load`."""
        return self.load(
            "--seconds", options.seconds, warmup=options.warmup, at_least=options.seconds
        )

    def load(self, *amount: object, warmup: float, at_least: float = 0) -> Sample:
        """Load the server with an *amount*, given in the load's own options.

        The timed region takes at least ``at_least`` seconds.

        Raises:
            Failed: if the server or its load breaks, or a reply is wrong.
            Impossible: if the figures cannot be true.
        """
        timed = ["--server-pid", self.running.pid, *amount, "--warmup", warmup]
        timeout = at_least + warmup + GRACE
        with self.around():
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
        return sample_of(figures)


def sample_of(figures: Figures) -> Sample:
    """The figures that a load has printed."""
    latency = NO_LATENCY | figures.get("latency_us", {})
    return Sample(
        requests=figures["requests"],
        seconds=figures["seconds"],
        server_cpu_seconds=figures["server_cpu_seconds"],
        client_cpu_seconds=figures["client_cpu_seconds"],
        latency_p50_us=latency["p50"],
        latency_p99_us=latency["p99"],
        latency_p999_us=latency["p999"],
    )


@contextmanager
def serving(command: Sequence[str], load: Load, cores: Cores | None) -> Iterator[Loaded]:
    """Start a server and settle it; the end of the block stops it.

    With ``cores`` None, server and load may run on any core.

    Raises:
        Unavailable: if the server cannot do what is asked.
        Failed: if it breaks.
    """
    with server(command, cores.server if cores else None) as running:
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

    All servers run at once, so that turns can be short and neighbouring turns meet the same
    machine. Each round restarts them, because the memory layout of a process affects its speed too.
    """
    taking_turns = entrants(contenders)
    outcomes: dict[str, Outcome[Sample]] = {name: Outcome() for name, _ in taking_turns}

    def attempt(name: str, build: Build | None, action: Callable[[], Found]) -> Found | None:
        outcome = outcomes[name]
        was_out = outcome.is_out
        found = outcome.attempt(build, action)
        if outcome.is_out and not was_out:
            report(f"{name}: n/a, {outcome.missing}")
        return found

    for number in range(1, options.rounds + 1):
        with ExitStack() as running:
            loaded = [
                (name, build, attempt(name, build, partial(_enter, running, serve, name)))
                for name, build in taking_turns
            ]
            for _ in range(options.turns):
                for name, build, each in loaded:
                    sample = attempt(name, build, partial(each.turn, options)) if each else None
                    if sample is not None:
                        outcomes[name].of(build).append(sample)
        for name, build in taking_turns:
            if samples := outcomes[name].of(build):
                what = f"{shown(name, build)}: round {number} of {options.rounds}"
                report(f"{what}: {samples[-1]} at last")
    return outcomes


def _enter(
    running: ExitStack, serve: Callable[[str], AbstractContextManager[Loaded]], name: str
) -> Loaded:
    return running.enter_context(serve(name))


def compare_in_turns(
    rows: Mapping[tuple[str, ...], Row],
    contenders: Sequence[str],
    options: argparse.Namespace,
    serve: Callable[[Row, str], AbstractContextManager[Loaded]],
    say: Callable[[str], None],
) -> list[Comparison[Sample]]:
    """Measure row after row, the servers of each in turn; see :func:`in_turns`.

    Args:
        rows: by their labels.
        contenders: the servers.
        options: those of :func:`benchmarks.measure.options.add_turns`.
        serve: starts a server of a row with its load.
        say: takes the lines of progress.
    """
    return [
        Comparison(labels, in_turns(contenders, options, partial(serve, row), about(labels, say)))
        for labels, row in rows.items()
    ]


def turns_method(
    options: argparse.Namespace,
    cores: Cores,
    load: str = "",
    where: str = "; server and client on one core each",
) -> Method:
    """How a page is measured whose servers take turns.

    Args:
        options: those of :func:`benchmarks.measure.options.add_turns`.
        cores: of server and load.
        load: a sentence about the load.
        where: it runs, behind the sentence about the turns.
    """
    facts: dict[str, object] = {
        "rounds": options.rounds,
        "turns": options.turns,
        "seconds": options.seconds,
        "warmup_seconds": options.warmup,
        "server_core": cores.server,
        "client_core": cores.client,
        "pinned_apart": cores.apart,
    }
    turns = (
        f"Median of {options.rounds} × {options.turns} turns of {options.seconds:g} s with the"
        f" outer deciles (for up to 20, the lowest and the highest){where}."
    )
    return Method(facts, f"{turns} {load}" if load else turns)
