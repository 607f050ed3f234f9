"""`python -m penstock.sim`: simulated instruments on pseudo-terminals, in a process of their own.

Prints one line of JSON when the ports are there, then serves them until standard input ends or a
SIGTERM or SIGINT comes. On Linux it also ends with the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import re
import selectors
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from penstock.sim.bus import Bus
from penstock.sim.firmware import FIRMWARES
from penstock.sim.mass_flow_controller import MassFlowController
from penstock.sim.pty import PtyPort

__all__ = ["main"]

_UNIT = re.compile(r"([A-Za-z]):(\d{1,6}(?:\.\d+)?)(SCCM|SLPM)?", re.ASCII | re.IGNORECASE)
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0 on an ordered end, 1 when a port cannot be made."""
    options = _parser().parse_args(arguments)
    _end_with_parent()
    try:
        buses = _buses(options)
    except ValueError as error:
        print(f"penstock.sim: {error}", file=sys.stderr)
        return 2
    # select() takes microseconds where epoll rounds a timeout up to a millisecond, which at
    # 115200 baud is a quarter of a reply; a simulator has few enough descriptors for it.
    with asyncio.Runner(loop_factory=_select_loop) as runner:
        return runner.run(_serve(buses, until_eof=not options.no_stdin))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.sim",
        description="Simulate Alicat mass-flow controllers on pseudo-terminals.",
    )
    parser.add_argument(
        "--bus", action="append", required=True, metavar="ID:FULLSCALE[,...]",
        help="one port and its units, for example A:500,B:10SLPM (SCCM if no unit is named); "
             "repeat it for more ports",
    )  # fmt: skip
    parser.add_argument("--baud", type=int, default=19200, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the noise, default: %(default)s")
    parser.add_argument(
        "--noise", type=float, default=0.0005, metavar="FRACTION",
        help="standard deviation as a fraction of full scale, default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--tau", type=float, default=0.3, metavar="SECONDS",
        help="time constant of the flow, default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--turnaround", type=float, default=0.002, metavar="SECONDS",
        help="from the end of a request to its answer, default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--firmware", choices=sorted(FIRMWARES), default="10v20", help="default: %(default)s"
    )
    parser.add_argument("--no-stdin", action="store_true", help="run on when standard input ends")
    return parser


def _buses(options: argparse.Namespace) -> list[Bus]:
    buses: list[Bus] = []
    for position, description in enumerate(options.bus):
        units: list[MassFlowController] = []
        for part in description.split(","):
            match = _UNIT.fullmatch(part.strip())
            if match is None:
                raise ValueError(
                    f"--bus {description!r}: {part!r} is not a unit; write ID:FULLSCALE, such as"
                    " A:500 or A:10SLPM"
                )
            units.append(
                MassFlowController(
                    match[1],
                    full_scale=float(match[2]),
                    flow_unit=(match[3] or "SCCM").upper(),
                    tau=options.tau,
                    noise=options.noise,
                    seed=options.seed + 1000 * position,
                    firmware=FIRMWARES[options.firmware],
                    serial_number=str(521641 + 100 * position + len(units)),
                )
            )
        buses.append(Bus(units, baudrate=options.baud, turnaround=options.turnaround))
    return buses


def _select_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _serve(buses: Sequence[Bus], *, until_eof: bool) -> int:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    with ExitStack() as stack:
        ports: list[PtyPort] = []
        try:
            for bus in buses:
                ports.append(PtyPort(bus))
                stack.callback(ports[-1].close)
        except OSError as error:
            print(f"penstock.sim: no pseudo-terminal: {error.strerror}", file=sys.stderr)
            return 1
        for port in ports:
            pump = _Pump(loop, port)
            stack.callback(pump.stop)
        ready = {
            "buses": [
                {
                    "path": port.path,
                    "baudrate": port.bus.baudrate,
                    "units": [unit.unit_id for unit in port.bus.units],
                }
                for port in ports
            ]
        }
        print(json.dumps(ready), flush=True)
        if until_eof:
            _watch_stdin(loop, end)
        await end.wait()
    return 0


class _Pump:
    """One port on the loop by plain callbacks.

    A task with `wait_readable` would do, at several times the CPU time a reply; dozens of units at
    100 Hz make that count.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, port: PtyPort) -> None:
        self._loop = loop
        self._port = port
        self._timer: asyncio.TimerHandle | None = None
        self._watched = -1
        self._transmit()

    def stop(self) -> None:
        self._watch(-1)
        if self._timer is not None:
            self._timer.cancel()

    def _readable(self) -> None:
        self._port.receive()
        self._transmit()

    def _transmit(self) -> None:
        deadline = self._port.transmit()
        self._watch(-1 if self._port.bus.congested else self._port.fileno())
        if self._timer is not None:
            self._timer.cancel()
        # The loop's clock and the bus's are the same one, time.monotonic.
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._transmit)

    def _watch(self, descriptor: int) -> None:
        if descriptor != self._watched:
            if self._watched >= 0:
                self._loop.remove_reader(self._watched)
            if descriptor >= 0:
                self._loop.add_reader(descriptor, self._readable)
            self._watched = descriptor


def _watch_stdin(loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
    if descriptor < 0:
        end.set()
        return

    def drain() -> None:
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            data = b""  # a terminal that hung up has ended too
        if not data:
            loop.remove_reader(descriptor)
            end.set()

    loop.add_reader(descriptor, drain)


def _end_with_parent() -> None:
    # Without this a parent that is killed outright leaves the simulator behind if the parent's
    # own children hold the write end of standard input open.
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
