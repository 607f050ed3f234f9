"""The workloads of anyserial's performance page: each operation is one call through a portal.

    python benchmarks/serial_ports/portal.py --contender anyserial@trio --count 400

A blocking portal runs one event loop in a second thread. A timed operation is one call into that
thread, so every figure includes the switch between the threads, as on that page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import anyio
import anyio.from_thread
import anyio.lowlevel

from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import Port, backend_of, open_port, split
from benchmarks.serial_ports.ptys import PtyPair
from benchmarks.serial_ports.timing import timed_blocking

Call = Callable[..., Any]

WORKLOADS = [
    "receive 1 B",
    "send 1 B",
    "send 256 B",
    "send 4 KiB",
    "send 64 KiB",
    "8 ports",
    "32 ports",
    "receive_available 64 B",
    "receive_available 1 KiB",
    "receive_available 4 KiB",
]


def read_one(controller: int) -> None:
    """Spin until the byte that was sent is there."""
    while True:
        try:
            os.read(controller, 1)
        except BlockingIOError:
            continue
        return


async def send_and_drain(port: Port, controller: int, payload: bytes) -> None:
    """Send while a sibling task reads the bytes at the other end."""

    async def take() -> None:
        left = len(payload)
        while left:
            try:
                left -= len(os.read(controller, 16_384))
            except BlockingIOError:
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await port.send(payload)


async def round_trips(ports: list[Port], controllers: list[int]) -> None:
    """One byte in each direction on all ports concurrently."""

    async def round_trip(port: Port, controller: int) -> None:
        os.write(controller, b"x")
        await port.receive(1)
        await port.send(b"y")
        while True:
            try:
                os.read(controller, 1)
            except BlockingIOError:
                await anyio.lowlevel.checkpoint()
            else:
                return

    async with anyio.create_task_group() as tasks:
        for port, controller in zip(ports, controllers, strict=True):
            tasks.start_soon(round_trip, port, controller)


async def take_available(port: Port, controller: int, payload: bytes) -> None:
    """Fill the queue and empty it again."""
    os.write(controller, payload)
    left = len(payload)
    while left:
        left -= len(await port.native.receive_available())


def operation(
    workload: str, call: Call, ports: list[Port], pairs: list[PtyPair]
) -> Callable[[], object]:
    """One timed operation of a workload."""
    port, controller = ports[0], pairs[0].fd
    kind, _, size = workload.partition(" ")
    if workload == "receive 1 B":

        def receive() -> None:
            os.write(controller, b"x")
            call(port.receive, 1)

        return receive
    if workload == "send 1 B":

        def send() -> None:
            call(port.send, b"y")
            read_one(controller)

        return send
    if size == "ports":
        count = int(kind)
        fds = [pair.fd for pair in pairs[:count]]
        return lambda: call(round_trips, ports[:count], fds)
    number, unit = size.split()
    payload = b"\xaa" * (int(number) * (1024 if unit == "KiB" else 1))
    function: Callable[..., Awaitable[None]] = send_and_drain if kind == "send" else take_available
    return lambda: call(function, port, controller, payload)


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="anyserial's page: operations through a portal")
    parser.add_argument("--contender", required=True)
    parser.add_argument("--count", type=int, default=400)
    arguments = parser.parse_args()
    library, loop = split(arguments.contender)
    backend, options = backend_of(loop)
    pairs = [PtyPair() for _ in range(32)]
    results = {}
    with anyio.from_thread.start_blocking_portal(backend, options) as portal:
        ports = [portal.call(open_port, library, pair.path) for pair in pairs]
        for workload in WORKLOADS:
            heavy = workload in ("send 64 KiB", "32 ports")
            count = max(10, arguments.count // 4) if heavy else arguments.count
            results[workload] = timed_blocking(
                operation(workload, portal.call, ports, pairs), count
            )
        for port in ports:
            portal.call(port.close)
    print(json.dumps(results))


if __name__ == "__main__":
    sys.exit(exit_code(main))
