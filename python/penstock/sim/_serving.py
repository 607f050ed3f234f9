"""Serving buses in a process of their own: ports, their pumps, and the end of it all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from penstock.sim._fleet import MODBUS_TCP, NamedBus
from penstock.sim._line.bus import Bus, BusTap, SharedLine
from penstock.sim._line.faults import LoggedFault
from penstock.sim._line.network import open_rfc2217, open_tcp
from penstock.sim._line.pty import PtyPort


@dataclass(frozen=True, slots=True)
class Ports:
    """Where buses are served besides their pseudo-terminals, and where faults are logged.

    With ``match_baudrate`` units receive a client's bytes only while it has set the bus's baud
    rate.
    """

    links: Path | None = None
    tcp: int | None = None
    rfc2217: int | None = None
    fault_log: Path | None = None
    match_baudrate: bool = False

    def check(self, fleet: Sequence[NamedBus]) -> None:
        """Raise ValueError if a network port of these buses is invalid, used twice or missing."""
        buses = len(fleet)
        for named in fleet:
            if named.protocol == MODBUS_TCP and self.tcp is None:
                raise ValueError(
                    f"bus {named.name} speaks Modbus TCP, which needs a network port; add --tcp"
                )
            if named.protocol == MODBUS_TCP and self.rfc2217 is not None:
                raise ValueError(
                    f"bus {named.name} speaks Modbus TCP, which is not on a serial line; leave out "
                    "--rfc2217"
                )
        for option, first in (("--tcp", self.tcp), ("--rfc2217", self.rfc2217)):
            if first is not None and not (first == 0 or 1 <= first <= 65536 - buses):
                raise ValueError(
                    f"{option} {first}: {buses} ports from there are not between 1 and 65535;"
                    " choose a lower one, or 0 for free ones"
                )
        if self.tcp and self.rfc2217 and abs(self.tcp - self.rfc2217) < buses:
            raise ValueError(
                f"--tcp {self.tcp} and --rfc2217 {self.rfc2217} overlap with {buses} buses;"
                f" leave {buses} ports between them"
            )


async def serve(buses: Sequence[NamedBus], ports: Ports, *, until_eof: bool) -> int:
    """Serve until a signal comes or standard input ends; the exit code."""
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    async with AsyncExitStack() as stack:
        try:
            if ports.fault_log is not None:
                log = stack.enter_context(ports.fault_log.open("a", encoding="utf-8"))
                for named in buses:
                    _log_faults(named, log)
            if ports.links is not None:
                ports.links.mkdir(parents=True, exist_ok=True)
            ready = [
                await _open(loop, stack, named, position, ports)
                for position, named in enumerate(buses)
            ]
        except OSError as error:
            what = error.filename or "a port"
            print(
                f"penstock.sim: {what} cannot be made: {error.strerror or error}; choose another"
                " --link, --tcp, --rfc2217 or --fault-log",
                file=sys.stderr,
            )
            return 1
        print(json.dumps({"buses": ready}), flush=True)
        if until_eof:
            _watch_stdin(loop, end)
        await end.wait()
    return 0


async def _open(
    loop: asyncio.AbstractEventLoop,
    stack: AsyncExitStack,
    named: NamedBus,
    position: int,
    ports: Ports,
) -> dict[str, object]:
    bus = named.bus
    found: dict[str, object] = {
        "name": named.name,
        "protocol": named.protocol,
        "baudrate": bus.baudrate,
        "units": [unit.unit_id for unit in bus.units],
    }
    if named.protocol == MODBUS_TCP:
        assert ports.tcp is not None  # as Ports.check says
        number = ports.tcp and ports.tcp + position
        return found | {"tcp": await stack.enter_async_context(open_tcp(bus, port=number))}
    shared = ports.tcp is not None or ports.rfc2217 is not None
    line = SharedLine(bus)
    # A tap costs something at every reply, so a bus with one port does without.
    end: Bus | BusTap = line.tap() if shared else bus
    link = None if ports.links is None else ports.links / named.name
    port = PtyPort(end, link=link, match_baudrate=ports.match_baudrate)
    stack.callback(port.close)
    pump = _Pump(loop, port)
    stack.callback(pump.stop)
    found["path"] = port.path
    if ports.tcp is not None:
        number = ports.tcp and ports.tcp + position
        found["tcp"] = await stack.enter_async_context(open_tcp(line, port=number))
    if ports.rfc2217 is not None:
        number = ports.rfc2217 and ports.rfc2217 + position
        found["rfc2217"] = await stack.enter_async_context(
            open_rfc2217(line.tap(), port=number, match_baudrate=ports.match_baudrate)
        )
    return found


def _log_faults(named: NamedBus, log: TextIO) -> None:
    def write(fault: LoggedFault) -> None:
        entry: dict[str, Any] = {
            "bus": named.name,
            "at": round(fault.at, 6),
            "kind": fault.kind,
            "unit": fault.unit_id,
        }
        if fault.reply:
            entry["reply"] = fault.reply
        if fault.before != fault.after:
            entry |= {"before": fault.before.decode("latin-1"),
                      "after": fault.after.decode("latin-1")}  # fmt: skip
        if fault.detail:
            entry["detail"] = fault.detail
        print(json.dumps(entry), file=log, flush=True)

    named.bus.fault_log.subscribe(write)


class _Pump:
    """One port on the loop by plain callbacks.

    A task with ``wait_readable`` would do, at several times the CPU time a reply; dozens of units
    at 100 Hz make that count.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, port: PtyPort) -> None:
        self._loop = loop
        self._port = port
        self._timer: asyncio.Handle | None = None
        self._watched = -1
        bus = port.bus
        if isinstance(bus, BusTap):
            # Called in the middle of another port's work, so only schedules.
            bus.wake = self._wake
        self._transmit()

    def stop(self) -> None:
        """Remove the callbacks from the loop."""
        self._watch(-1)
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self._transmit)

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
