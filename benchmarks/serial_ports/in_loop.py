"""One library in an event loop: receive, exchange, cancel; or its system calls, or its memory.

python benchmarks/serial_ports/in_loop.py --contender penstock@trio --what times --count 2000
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import Port, open_port, run, split
from benchmarks.serial_ports.ptys import PtyPair, answering_process, other_core
from benchmarks.serial_ports.timing import summary, timed

DEADLINE = 0.01
MARK = b"measured part"


async def times(port: Port, pair: PtyPair, count: int, cancels: int) -> dict[str, Any]:
    """Latencies of the three most common operations."""
    controller = pair.fd
    receive, send = port.receive, port.send
    write = os.write

    async def receive_waiting() -> None:
        write(controller, b"x")
        if await receive(1) != b"x":
            raise AssertionError("a wrong byte was received")

    async def exchange() -> None:
        await send(b"q")
        if await receive(1) != b"q":
            raise AssertionError("a wrong byte was received")

    results = {"receive": await timed(receive_waiting, count)}
    with answering_process([pair], other_core()):
        results["exchange"] = await timed(exchange, count)
    results["cancel"] = await overshoot(port, cancels)
    return results


async def overshoot(port: Port, count: int) -> dict[str, float]:
    """The time from the deadline of a cancelled receive to its return."""
    import anyio

    late = []
    cpu = time.process_time()
    for _ in range(count):
        begin = time.perf_counter_ns()
        with anyio.move_on_after(DEADLINE) as scope:
            await port.receive(1)
        late.append(time.perf_counter_ns() - begin - int(DEADLINE * 1e9))
        if not scope.cancelled_caught:
            raise AssertionError("a byte came from nowhere")
    return summary(late, time.process_time() - cpu)


async def calls(port: Port, pair: PtyPair, count: int, available: bool) -> dict[str, Any]:
    """Receive available data between two marks in the system call trace."""
    sink = os.open("/dev/null", os.O_WRONLY)
    receive = port.native.receive_available if available else None
    for marked in (False, True):
        if marked:
            os.write(sink, MARK)
        for _ in range(count):
            os.write(pair.fd, b"x")
            await (port.receive(1) if receive is None else receive())
        if marked:
            os.write(sink, MARK)
    return {}


async def memory(port: Port, pair: PtyPair, count: int) -> dict[str, Any]:
    """Net memory growth in bytes after *count* calls of each receive function."""
    buffer = bytearray(64)

    async def receive() -> None:
        await port.native.receive(64)

    async def receive_into() -> None:
        await port.native.receive_into(buffer)

    async def receive_available() -> None:
        await port.native.receive_available()

    results = {}
    for way in (receive, receive_into, receive_available):
        tracemalloc.start()
        for _ in range(count):
            os.write(pair.fd, b"x" * 64)
            await way()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(count):
            os.write(pair.fd, b"x" * 64)
            await way()
        now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        results[way.__name__] = {"net": now - before, "peak": peak - before}
    return results


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="A serial library in its event loop")
    parser.add_argument("--contender", required=True)
    parser.add_argument("--what", choices=["times", "calls", "available", "memory"], required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--cancels", type=int, default=100)
    arguments = parser.parse_args()
    library, loop = split(arguments.contender)
    pair = PtyPair()

    async def program() -> dict[str, Any]:
        port = await open_port(library, pair.path)
        try:
            if arguments.what == "times":
                return await times(port, pair, arguments.count, arguments.cancels)
            if arguments.what == "memory":
                return await memory(port, pair, arguments.count)
            return await calls(port, pair, arguments.count, arguments.what == "available")
        finally:
            await port.close()

    print(json.dumps(run(loop, program)))


if __name__ == "__main__":
    sys.exit(exit_code(main))
