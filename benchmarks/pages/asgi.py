"""Web servers of Python: requests and WebSocket messages by ASGI and WSGI applications.

The loads (``cpp/http_client.cpp`` and its neighbours) compare every reply byte for byte; h2load and
wrk, which do not, are named in their rows. Each server runs by its own command, as one worker on
one core, and the CPU time is that of all its processes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.closed_loop import (
    CPU_WITHOUT_FLOOR,
    LATENCIES,
    RATE,
    Load,
    Loaded,
    Sample,
    in_turns,
    serving,
    settle,
    turns_method,
)
from benchmarks.measure.comparison import Comparison, missing_list
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.memory import process_tree
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.options import add_choices, add_turns, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import server
from benchmarks.measure.sanity import check_requests
from benchmarks.web.commands import SERVERS, TWO_CORES
from benchmarks.web.halting import go_on, going_on, stop
from benchmarks.web.idle import idle_comparison, idle_metrics
from benchmarks.web.rows import ROWS, Row, load_of, missing_load
from benchmarks.web.workers import workers_comparison, workers_sentence

SUMMARY = "Web servers of Python: ASGI, WSGI, WebSocket, HTTP/2"

COSTS = [Cost(CPU_WITHOUT_FLOOR, Sample)]
COMPARISON_OPTIONS = ["--turns", "4", "--rows", "hello,ws64", "--servers", OURS]
PAGE = DeclaredPage(
    name="asgi",
    labels=["row"],
    metrics=[RATE, CPU_WITHOUT_FLOOR, *LATENCIES[:2]],
    charts={
        "asgi": Bars(
            "Web servers of Python: CPU per request (less is better)",
            "µs / request",
            CPU_WITHOUT_FLOOR,
        )
    },
)
IDLE, WORKERS = "idle", "workers"
OWN_ECHO = "penstock-protocol"
REQUEST_BYTES = 73  # of the load's request for the hello row
PEERS = [
    *("uvicorn", "httptools", "zttp", "uvloop", "websockets", "granian", "hypercorn"),
    *("peregrine-server", "weft-server", "m0serve", "h2corn", "fastpysgi", "saltare", "robyn"),
    *("gunicorn", "bjoern-binary", "fastwsgi", "fastapi", "starlette", "django"),
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_choices(parser, "--servers", "server", SERVERS)
    add_choices(parser, "--rows", "row", [*ROWS, IDLE, WORKERS])
    parser.add_argument("--connections", type=int, default=32, help="connections (32)")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections (10000)")
    # Sixteen servers and as many rows: with the turns of the other pages it would take an hour.
    add_turns(parser, turns=8, rounds=2)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each row, the servers in turn."""
    facts = machine_facts(["penstock", *PEERS], compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    with tempfile.TemporaryDirectory() as folder:
        pair = make_certificate(Path(folder))
        stand = Stand(options, cores, native, (str(pair[0]), str(pair[1])), say)
        wanted = [row for name, row in ROWS.items() if name in options.rows]
        comparisons = [stand.compare(row) for row in wanted if missing_load(row) is None]
    report = PAGE.report(
        comparisons,
        facts,
        turns_method(options, cores, f"{options.connections} connections, kept alive."),
        conditions={"connections": options.connections},
    )
    if without := sorted({name for row in wanted if (name := missing_load(row)) is not None}):
        report.add(f"Rows of loads that this machine lacks are left out: {', '.join(without)}.")
    if IDLE in options.rows:
        idle = idle_comparison(options, cores, native, say)
        report.add_part("idle_cells", [idle], PAGE.labels, idle_metrics(options.idle))
    if WORKERS in options.rows:
        workers = workers_comparison(options, native, say)
        report.add(workers_sentence(workers), *missing_list([workers]))
        report.keep("workers_cells", [workers], [RATE])
    return report


class Stand:
    """Starts the servers of a row with their loads."""

    def __init__(
        self,
        options: argparse.Namespace,
        cores: Cores,
        native: Path,
        certificate: tuple[str, str],
        say: Say,
    ) -> None:
        self._options = options
        self._cores = cores
        self._native = native
        self._certificate = certificate
        self._say = say

    def compare(self, row: Row) -> Comparison[Sample]:
        """Measure a row."""
        label = row.label.format(connections=row.connections or self._options.connections)
        names = [name for name in row.servers if name in self._options.servers]
        if row.floor and names:
            names = [FLOOR, OWN_ECHO, *names]

        def serve(name: str) -> AbstractContextManager[Loaded]:
            return self._serve(name, row)

        outcomes = in_turns(
            names, self._options, serve, report=lambda line: self._say(f"{label}: {line}")
        )
        return Comparison((label,), outcomes)

    @contextmanager
    def _serve(self, name: str, row: Row) -> Iterator[Loaded]:
        load: Load
        if name in (FLOOR, OWN_ECHO):
            # The bytes of the request there and back: what no server can do without.
            command = [str(self._native / "echo_floor")]
            if name == OWN_ECHO:
                command = [sys.executable, str(BENCHMARKS / "echo_server.py")]
                command += ["--loop", OURS, "--style", "protocol"]
            count = str(row.connections or self._options.connections)
            echo = [str(self._native / "echo_client"), "--size", str(REQUEST_BYTES)]
            with serving(
                command, lambda port: [*echo, "--connections", count, "--port", port], self._cores
            ) as loaded:
                yield loaded
            return
        load = load_of(row, self._native, self._options.connections)
        with self._running(self._command(name, row), load, alone=name not in TWO_CORES) as loaded:
            yield loaded

    def _command(self, name: str, row: Row) -> list[str]:
        command = [sys.executable, str(BENCHMARKS / "asgi_server.py"), "--server", name]
        command += ["--application", row.application, "--interface", row.interface]
        command += ["--tls", *self._certificate] if row.tls else []
        return command + (["--http2"] if row.http2 else [])

    @contextmanager
    def _running(self, command: Sequence[str], load: Load, *, alone: bool) -> Iterator[Loaded]:
        with server(command, self._cores.server if alone else None) as running:
            client = load(running.ready_line)
            settle(client, self._cores)
            processes = process_tree(running.pid)
            stop(processes)
            try:
                check = partial(check_requests, cores=1 if alone else 2)
                yield Loaded(running, client, self._cores, check, partial(going_on, processes))
            finally:
                go_on(processes)
