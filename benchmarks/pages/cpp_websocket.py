"""WebSocket echo in C++: penstock::ws and four peers, beside a TCP echo as the floor.

The load is one program (``cpp/websocket_client.cpp``): N connections, one message in flight on
each, every reply compared byte for byte. The floor is raw epoll, which returns as many bytes as a
client's frame has. Server and client have one core each. The peers are Boost.Beast, Drogon,
uWebSockets and Bun, whose WebSockets are uWebSockets called from JavaScript. Bun is used from the
path or from ``build/bun`` (``npm install --prefix build/bun bun``).
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import (
    CPU,
    LATENCIES,
    RATE,
    Loaded,
    Sample,
    compare_in_turns,
    serving,
    turns_method,
)
from benchmarks.measure.comparison import Metric, compare_in_rounds, metric_tables
from benchmarks.measure.compilers import CLANG
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import CELLS, Bars, DeclaredPage, in_panels
from benchmarks.measure.echo_stand import masked_frame_size, size_name
from benchmarks.measure.library_stand import (
    ECHO,
    add_libraries,
    drogon_version,
    uwebsockets_version,
)
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.memory import descriptors, resident_bytes
from benchmarks.measure.native import build_libraries
from benchmarks.measure.options import add_turns, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.peers import bun_command, bun_version
from benchmarks.measure.processes import Unavailable, server

SUMMARY = "C++ libraries: WebSocket echo, closed loop"

LIBRARIES = [OURS, "beast", "drogon", "uwebsockets", "bun"]
SIZES = [64, 1024, 65536]
CONNECTIONS = 32
DEFLATE = "deflate"
DEFLATE_SIZE = 1024
OTHER_DESCRIPTORS = 200  # of a process besides its connections
P50 = replace(LATENCIES[0], heading="Round trip, µs, median (less is better):", beside_floor=True)
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "6", "--libraries", "penstock", "--idle", "0"]
PAGE = DeclaredPage(
    name="cpp_websocket",
    labels=["message", "connections"],
    metrics=[CPU, RATE, P50],
    charts={
        "cpp_websocket": Bars(
            "C++ WebSocket echo: server CPU per message (less is better)",
            "µs / message",
            CPU,
            in_panels(str),
        )
    },
)


@dataclass(frozen=True)
class Memory:
    """What idle connections need, in bytes of resident memory."""

    bytes_a_connection: float

    def __str__(self) -> str:
        return f"{self.bytes_a_connection:.0f} bytes an idle connection"


MEMORY: Metric[Memory] = Metric(
    "bytes_per_idle_connection",
    "Resident bytes of an idle connection (less is better):",
    lambda sample: sample.bytes_a_connection,
    digits=0,
    more_is_better=False,
)

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_libraries(parser, LIBRARIES)
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="message sizes in bytes")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections (10000)")
    add_turns(parser)


@dataclass(frozen=True)
class Stand:
    """The programs and cores of the page."""

    native: str
    cores: Cores

    def command(self, name: str, *options: str) -> list[str]:
        """The command of a server.

        Raises:
            Unavailable: if Bun is not there, or the library has no compression.
        """
        if name == FLOOR:
            return [f"{self.native}/echo_floor"]
        if name == "drogon" and DEFLATE in options:
            raise Unavailable("it has no permessage-deflate")
        if name != "bun":
            return [f"{self.native}/websocket_{name}", *options]
        return bun_command("websocket_server.js", *options)

    @contextmanager
    def serving(
        self, name: str, size: int, connections: int, *options: str, text: bool = False
    ) -> Iterator[Loaded]:
        """Run a server and settle it; its messages are binary, or texts."""

        def load(port: str) -> list[str]:
            program = "echo_client" if name == FLOOR else "websocket_client"
            command = [f"{self.native}/{program}", "--port", port]
            command += ["--size", str(masked_frame_size(size) if name == FLOOR else size)]
            command += ["--connections", str(connections)]
            if name == FLOOR:
                return command
            return [*command, "--deflate", str(int(DEFLATE in options)), "--text", str(int(text))]

        with serving(self.command(name, *options), load, self.cores) as loaded:
            yield loaded

    def memory(self, name: str, count: int) -> Memory:
        """The memory of idle connections, which have made the handshake."""
        with server(self.command(name), self.cores.server) as running, ExitStack() as held:
            port = int(running.ready_line)

            def connect() -> socket.socket:
                connection = held.enter_context(socket.create_connection(("127.0.0.1", port)))
                connection.sendall(HANDSHAKE)
                received = b""
                while not received.endswith(b"\r\n\r\n"):
                    received += connection.recv(4096)
                return connection

            for _ in range(100):
                connect()
            before = resident_bytes(running.pid)
            for _ in range(count):
                connect()
            return Memory((resident_bytes(running.pid) - before) / count)


def websocket_facts() -> dict[str, object]:
    """The machine, and the versions of the servers."""
    fetched = {
        "Drogon": drogon_version(),
        "uWebSockets": uwebsockets_version(),
        "bun": bun_version(),
    }
    return machine_facts([], libraries=["libboost1.81-dev"], further=fetched, compiler=CLANG)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure each size, then compression, the libraries in turn; then the memory."""
    facts = websocket_facts()
    shorten_if_quick(options)
    stand = Stand(str(build_libraries()), cores)

    def serve(row: tuple[int, int, tuple[str, ...]], name: str) -> AbstractContextManager[Loaded]:
        size, connections, style = row
        return stand.serving(name, size, connections, *style)

    cells = [*((size, CONNECTIONS) for size in options.sizes), (options.sizes[0], 1)]
    comparisons = compare_in_turns(
        {(size_name(size), str(count)): (size, count, ()) for size, count in cells},
        [FLOOR, *options.libraries],
        options,
        serve,
        say,
    )
    packed = (f"{size_name(DEFLATE_SIZE)} {DEFLATE}", str(CONNECTIONS))
    compressed = compare_in_turns(
        {packed: (DEFLATE_SIZE, CONNECTIONS, (DEFLATE,))},
        options.libraries,
        options,
        serve,
        say,
    )
    report = PAGE.report(comparisons, facts, turns_method(options, cores))
    report.add(
        "With permessage-deflate, texts in JSON:",
        *metric_tables(compressed, PAGE.labels, options.libraries, [CPU, RATE]),
    )
    report.keep(CELLS, compressed, [CPU, RATE])
    if options.idle > 0:
        with descriptors(options.idle + OTHER_DESCRIPTORS):
            memory = compare_in_rounds(
                {(f"{options.idle} connections",): options.idle},
                options.libraries,
                2,
                lambda count, name: stand.memory(name, count),
                say,
            )
        report.add(*metric_tables(memory, [ECHO], options.libraries, [MEMORY]))
        report.keep(CELLS, memory, [MEMORY])
    return report
