"""A library without an event loop: receive one available byte, exchange one, time out.

python benchmarks/serial_ports/blocking.py --contender pyserial --count 2000
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.measured_program import Unavailable, exit_code
from benchmarks.serial_ports.libraries import BAUDRATE, imported
from benchmarks.serial_ports.ptys import PtyPair, answering_process, other_core
from benchmarks.serial_ports.timing import summary, timed_blocking

CONTENDERS = ["floor", "penstock", "pyserial", "serialx", "anyserial"]
DEADLINE = 0.01

Receive = Callable[[], bytes]
Send = Callable[[bytes], object]
Expire = Callable[[], object]


def open_contender(name: str, path: str) -> tuple[Receive, Send, Expire]:
    """The functions to receive one byte, to send, and to receive until the timeout."""
    if name == "floor":
        return _open_floor(path)
    if name in ("penstock", "anyserial"):
        module = imported("penstock.serial.sync" if name == "penstock" else "anyserial.sync")
        port = module.SerialPort.open(path, baudrate=BAUDRATE)

        def expire() -> None:
            try:
                port.receive(1, timeout=DEADLINE)
            except TimeoutError:
                return
            raise AssertionError("a byte came from nowhere")

        return lambda: port.receive(1), port.send, expire
    if name in ("pyserial", "serialx"):
        module = imported("serial" if name == "pyserial" else "serialx")
        port = module.Serial(path, baudrate=BAUDRATE, timeout=1)
        if not port.is_open:
            port.open()
        hasty: list[object] = []

        def expire_by_setting() -> None:
            if not hasty:
                port.timeout = DEADLINE
                hasty.append(True)
            if port.read(1):
                raise AssertionError("a byte came from nowhere")

        return lambda: bytes(port.read(1)), port.write, expire_by_setting
    raise Unavailable(f"unknown library '{name}'")


def _open_floor(path: str) -> tuple[Receive, Send, Expire]:
    fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(fd, select.POLLIN)

    def receive() -> bytes:
        poll.poll()
        return os.read(fd, 1)

    return receive, lambda data: os.write(fd, data), lambda: poll.poll(DEADLINE * 1000)


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="A serial library without an event loop")
    parser.add_argument("--contender", required=True, choices=CONTENDERS)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--cancels", type=int, default=100)
    arguments = parser.parse_args()
    pair = PtyPair()
    receive, send, expire = open_contender(arguments.contender, pair.path)
    controller, write = pair.fd, os.write

    def receive_waiting() -> None:
        write(controller, b"x")
        if receive() != b"x":
            raise AssertionError("a wrong byte was received")

    def exchange() -> None:
        send(b"q")
        if receive() != b"q":
            raise AssertionError("a wrong byte was received")

    results = {"receive": timed_blocking(receive_waiting, arguments.count)}
    with answering_process([pair], other_core()):
        results["exchange"] = timed_blocking(exchange, arguments.count)
    late = []
    cpu = time.process_time()
    for _ in range(arguments.cancels):
        begin = time.perf_counter_ns()
        expire()
        late.append(time.perf_counter_ns() - begin - int(DEADLINE * 1e9))
    results["cancel"] = summary(late, time.process_time() - cpu)
    print(json.dumps(results), flush=True)
    os._exit(0)  # threads and destructors of some libraries would print messages


if __name__ == "__main__":
    sys.exit(exit_code(main))
