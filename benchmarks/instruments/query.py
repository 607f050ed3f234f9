"""Single questions to one instrument, one at a time; or, as the floor, without any library.

python benchmarks/instruments/query.py --contender penstock@penstock --cmd ve --n 1000
python benchmarks/instruments/query.py --contender floor --cmd ve --port /dev/ttyUSB0 --baud 115200
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import termios
import time
import tty
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.instruments.far_end import far_end
from benchmarks.instruments.libraries import COMMANDS, Line, prepare
from benchmarks.measured_program import Unavailable, exit_code
from benchmarks.serial_ports.libraries import run, split
from benchmarks.serial_ports.ptys import other_core

WARM_UP = 10


def summary(times: list[int], cpu_seconds: float) -> dict[str, float]:
    """The page's percentiles in µs, and CPU time of a question."""
    ordered = sorted(times)
    last = len(ordered) - 1

    def percentile(share: float) -> float:
        return ordered[min(last, int(len(ordered) * share))] / 1000

    return {
        "p50": percentile(0.5),
        "p95": percentile(0.95),
        "p99": percentile(0.99),
        "max": ordered[last] / 1000,
        "cpu": cpu_seconds / len(ordered) * 1e6,
    }


async def questions(
    library: str, command: str, line: Line, count: int, *, eager: bool
) -> dict[str, float]:
    """Time *count* questions."""
    if eager:
        _make_tasks_eager()
    asked = await prepare(library, command, line)
    try:
        ask, clock = asked.ask, time.perf_counter_ns

        async def measure() -> dict[str, float]:
            for _ in range(WARM_UP):
                await ask()
            times = []
            cpu = time.process_time()
            for _ in range(count):
                begin = clock()
                await ask()
                times.append(clock() - begin)
            return summary(times, time.process_time() - cpu)

        # In a task of its own, so that the task factory matters.
        return await asyncio.get_running_loop().create_task(measure())
    finally:
        await asked.close()


def _make_tasks_eager() -> None:
    loop, factory = asyncio.get_running_loop(), getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        raise Unavailable("eager tasks need CPython 3.12")
    if type(loop).__module__.partition(".")[0] == "uvloop":
        raise Unavailable("uvloop gives its task factory an argument that this CPython's refuses")
    loop.set_task_factory(factory)


def raw_questions(command: str, line: Line, count: int) -> dict[str, float]:
    """The floor: write(2) and read(2), a whole line each."""
    data = line.unit_id.encode() + {"ve": b"VE", "gs": b"GS", "poll": b""}[command] + b"\r"
    with open_raw(line) as descriptor:
        times = []
        clock = time.perf_counter_ns
        cpu = time.process_time()
        for number in range(WARM_UP + count):
            if number == WARM_UP:
                cpu = time.process_time()
            begin = clock()
            ask_raw(descriptor, data)
            times.append(clock() - begin)
        return summary(times[WARM_UP:], time.process_time() - cpu)


class open_raw:
    """The descriptor of a port at its baud rate, raw and blocking."""

    def __init__(self, line: Line) -> None:
        self._fd = os.open(line.port, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._fd)
        attributes = termios.tcgetattr(self._fd)
        attributes[4] = attributes[5] = getattr(termios, f"B{line.baudrate}")
        termios.tcsetattr(self._fd, termios.TCSANOW, attributes)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)


def ask_raw(descriptor: int, data: bytes, lines: int = 1) -> None:
    """Send a command and read the lines of its answer."""
    os.write(descriptor, data)
    while lines > 0:
        lines -= os.read(descriptor, 4096).count(b"\r")


def add_line_options(parser: argparse.ArgumentParser) -> None:
    """``--port``, ``--unit``, ``--firmware`` and ``--baud``."""
    parser.add_argument("--port", help="a real port (default: an instrument on a pty)")
    parser.add_argument("--unit", default="A", help="its unit id (A)")
    parser.add_argument("--firmware", default="10v20", help="its firmware (10v20)")
    parser.add_argument("--baud", type=int, default=115_200, help="its baud rate (115200)")


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="Single questions to one instrument")
    parser.add_argument("--contender", required=True)
    parser.add_argument("--cmd", choices=COMMANDS, default="ve")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--n", type=int, default=1000)
    add_line_options(parser)
    options = parser.parse_args()

    def measured(port: str) -> dict[str, Any]:
        line = Line(port, options.unit, options.firmware, options.baud)
        if options.contender == "floor":
            return raw_questions(options.cmd, line, options.n)
        library, loop = split(options.contender)

        async def program() -> dict[str, float]:
            return await questions(library, options.cmd, line, options.n, eager=options.eager)

        found: dict[str, Any] = run(loop, program)
        return found

    if options.port:
        print(json.dumps(measured(options.port)))
        return
    with far_end(1, other_core(), unit_id=options.unit) as there:
        print(json.dumps(measured(there.paths[0])))


if __name__ == "__main__":
    sys.exit(exit_code(main))
