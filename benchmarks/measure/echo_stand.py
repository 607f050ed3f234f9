"""The test stand of the echo pages: their servers, their load, their floor."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    Loaded,
    Sample,
    compare_in_turns,
    in_turns,
    run_load,
    serving,
    settle,
)
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.contenders import FLOOR, PYTHON_FLOOR
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Say
from benchmarks.measure.processes import server
from benchmarks.measure.syscalls import counted

# The difference of two counts excludes the calls of set-up, shutdown and the tracer.
SYSCALL_REQUESTS = (500, 4500)


@dataclass(frozen=True)
class Cell:
    """The conditions of a comparison: style of the server, message size, connections."""

    style: str
    size: int
    connections: int

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.style, size_name(self.size), str(self.connections))

    def __str__(self) -> str:
        return f"{self.style}, {size_name(self.size)}, {self.connections} connections"


LABELS = ["style", "message", "connections"]


def size_name(size: int) -> str:
    """``1 KiB``, ``10 KiB``, ``1000 B``."""
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def masked_frame_size(size: int) -> int:
    """The bytes of a client's WebSocket frame with ``size`` bytes of payload (RFC 6455, 5.2)."""
    return size + (6 if size < 126 else 8 if size < 65536 else 14)


@dataclass(frozen=True)
class EchoStand:
    """The programs and cores with which echo servers are measured.

    Attributes:
        native: the folder of the native programs.
        cores: the cores of server and load.
        load: the program that is the load: a native one, or a script in ``benchmarks``.
        pinned: whether server and load stay on those cores, or run on any.
        unix: whether servers listen on a Unix socket instead of a TCP port.
    """

    native: Path
    cores: Cores
    load: str = "echo_client"
    pinned: bool = True
    unix: bool = False

    def server_command(self, name: str, style: str, *options: str) -> list[str]:
        """The command of the server called ``name``, a floor or a loop."""
        if name == FLOOR:
            return [str(self.native / "echo_floor"), *options]
        if name == PYTHON_FLOOR:
            script = str(BENCHMARKS / "call_floor.py")
            return [sys.executable, script, "--folder", str(self.native), *options]
        script = str(BENCHMARKS / "echo_server.py")
        return [sys.executable, script, "--loop", name, "--style", style, *options]

    def load_command(self, cell: Cell, address: str) -> list[str]:
        """The command of the load on a server's address: a port, or the path of a Unix socket."""
        option = "--unix" if self.unix else "--port"
        program = [str(self.native / self.load)]
        if self.load.endswith(".py"):
            program = [sys.executable, str(BENCHMARKS / self.load)]
        command = [*program, option, address, "--size", str(cell.size)]
        return [*command, "--connections", str(cell.connections)]

    @contextmanager
    def serving(self, name: str, cell: Cell) -> Iterator[Loaded]:
        """Run a server in the block."""
        # A new path each time: some loops leave the socket's file behind.
        with tempfile.TemporaryDirectory() as folder:
            where = ["--unix", str(Path(folder, "echo"))] if self.unix else []
            with serving(
                self.server_command(name, cell.style, *where),
                lambda address: self.load_command(cell, address),
                self.cores if self.pinned else None,
            ) as loaded:
                yield loaded

    def syscalls_a_request(self, cell: Cell, name: str) -> float:
        """System calls of one server per request, from a separate pass under strace.

        Raises:
            StraceMissing: if strace is not there or could not attach.
            Failed: if server or load breaks.
        """
        totals = []
        with server(self.server_command(name, cell.style), self.cores.server) as running:
            load = self.load_command(cell, running.ready_line)
            settle(load, self.cores)
            for requests in SYSCALL_REQUESTS:
                with counted(running.pid) as calls:
                    figures = run_load(load, self.cores, "--requests", requests, "--warmup", 0)
                totals.append((calls.total(), figures["replies"]))
        (few_calls, few), (many_calls, many) = totals
        return float(many_calls - few_calls) / float(many - few)

    def compare(
        self, cell: Cell, contenders: Sequence[str], options: argparse.Namespace, say: Say
    ) -> Comparison[Sample]:
        """All turns of a cell."""
        outcomes = in_turns(
            contenders,
            options,
            lambda name: self.serving(name, cell),
            report=lambda line: say(f"{cell}: {line}"),
        )
        return Comparison(cell.labels, outcomes)

    def compare_rows(
        self,
        rows: Mapping[tuple[str, ...], Cell],
        contenders: Sequence[str],
        options: argparse.Namespace,
        say: Say,
    ) -> list[Comparison[Sample]]:
        """All turns of the cells of rows that have other labels than their cells."""
        return compare_in_turns(
            rows, contenders, options, lambda cell, name: self.serving(name, cell), say
        )
