"""``python -m penstock.sim``: simulated instruments in a process of their own.

Prints one line of JSON when the ports exist, then serves them until standard input ends or SIGTERM
or SIGINT arrives. On Linux it also ends with the process that started it.
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
from pathlib import Path
from typing import Final

from penstock.sim._fleet import (
    FAMILIES,
    PROTOCOLS,
    NamedBus,
    make_bus,
    read_fault_plan,
    read_fleet,
)
from penstock.sim._personality.families import MassFlowController
from penstock.sim._personality.modbus_unit import MODBUS_NOTES, MODBUS_PROVENANCE
from penstock.sim._physics.firmware import FIRMWARES
from penstock.sim._serving import Ports, serve

__all__ = ["build_parser", "main"]

_PROGRAM: Final = "python -m penstock.sim"
_UNIT = re.compile(r"([A-Za-z]):(\d{1,6}(?:\.\d+)?)(SCCM|SLPM)?", re.ASCII | re.IGNORECASE)
_PR_SET_PDEATHSIG: Final = 1
#: Options of ``--bus`` alone, and the keys that a fleet file has in their place.
_OF_BUSES: Final = {
    "baud": "baudrate under [[bus]]",
    "turnaround": "turnaround under [[bus]]",
    "seed": "seed at the top",
    "noise": "noise under [[bus.unit]]",
    "tau": "tau under [[bus.unit]]",
    "firmware": "firmware under [[bus.unit]]",
    "protocol": "protocol under [[bus]]",
}
_DEFAULTS: Final = {
    "baud": 19200, "turnaround": 0.002, "seed": 0, "noise": 0.0005, "tau": 0.3,
    "firmware": "10v20",
    "protocol": "ascii",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None, *, prog: str = _PROGRAM) -> int:
    """Run the command line as the program ``prog``.

    The exit code is 0 on an ordered end, 1 when a port cannot be made.
    """
    parser = build_parser()
    parser.prog = prog
    options = parser.parse_args(arguments)
    if options.describe:
        print(json.dumps(_description(), indent=2))
        return 0
    if (options.bus is None) == (options.fleet is None):
        parser.error("one of the arguments is required: --bus or --fleet")
    if options.fleet is not None:
        for name, key in _OF_BUSES.items():
            if getattr(options, name) is not None:
                parser.error(f"--{name} is of --bus alone; with --fleet write {key} in its file")
    for name, default in _DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    _end_with_parent()
    try:
        buses = _named_buses(options)
        ports = Ports(
            links=options.link,
            tcp=options.tcp,
            rfc2217=options.rfc2217,
            fault_log=options.fault_log,
            match_baudrate=options.match_baud,
        )
        ports.check(buses)
    except ValueError as error:
        print(f"penstock.sim: {error}", file=sys.stderr)
        return 2
    # select() takes microseconds where epoll rounds a timeout up to a millisecond, which at
    # 115200 baud is a quarter of a reply; a simulator has few enough descriptors for it.
    with asyncio.Runner(loop_factory=_select_loop) as runner:
        return runner.run(serve(buses, ports, until_eof=not options.no_stdin))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the simulator's command line."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Simulate Alicat instruments on pseudo-terminals and network ports.",
    )
    parser.add_argument(
        "--bus", action="append", metavar="ID:FULLSCALE[,...]",
        help="one port and its mass-flow controllers, for example A:500,B:10SLPM (SCCM if no unit "
             "is named); repeat it for more ports",
    )  # fmt: skip
    parser.add_argument("--fleet", metavar="FILE", help="the buses and units of a TOML file")
    parser.add_argument(
        "--fault", metavar="PLAN", help="what goes wrong on the lines, as a TOML file tells"
    )
    parser.add_argument(
        "--fault-log", type=Path, metavar="FILE",
        help="append every fault that happens to FILE, a JSON object a line",
    )  # fmt: skip
    parser.add_argument(
        "--link", type=Path, metavar="DIR",
        help="keep a symbolic link to every pseudo-terminal in DIR, named as its bus",
    )  # fmt: skip
    parser.add_argument(
        "--tcp", type=int, metavar="PORT",
        help="serve the buses on TCP too: the first one on PORT, the next one on PORT + 1, ...",
    )  # fmt: skip
    parser.add_argument(
        "--rfc2217", type=int, metavar="PORT", help="the same with the settings of RFC 2217"
    )
    parser.add_argument(
        "--describe", action="store_true",
        help="print families and firmwares as JSON, with the provenance of each, and leave",
    )  # fmt: skip
    parser.add_argument("--baud", type=int, help=f"of every --bus, default: {_DEFAULTS['baud']}")
    parser.add_argument("--seed", type=int, help="of the noise, default: 0")
    parser.add_argument(
        "--noise", type=float, metavar="FRACTION",
        help="standard deviation as a fraction of full scale, default: 0.0005",
    )  # fmt: skip
    parser.add_argument(
        "--tau", type=float, metavar="SECONDS",
        help="time constant of the flow, default: 0.3",
    )  # fmt: skip
    parser.add_argument(
        "--turnaround", type=float, metavar="SECONDS",
        help="from the end of a request to its answer, default: 0.002",
    )  # fmt: skip
    parser.add_argument(
        "--firmware",
        choices=sorted(name for name in FIRMWARES if name != "basis"),
        help=f"of every --bus, default: {_DEFAULTS['firmware']}",
    )
    parser.add_argument(
        "--protocol", choices=tuple(PROTOCOLS),
        help="what every --bus speaks; Modbus units have the numbers 1, 2, ...; Modbus TCP needs "
             "--tcp, default: ascii",
    )  # fmt: skip
    parser.add_argument(
        "--match-baud", action="store_true",
        help="units hear a program only while it has set their baud rate, on pseudo-terminals and "
             "by RFC 2217",
    )  # fmt: skip
    parser.add_argument("--no-stdin", action="store_true", help="run on when standard input ends")
    return parser


def _description() -> dict[str, object]:
    return {
        "families": list(FAMILIES),
        "firmwares": {
            name: {
                "revision": firmware.name,
                "provenance": firmware.provenance.value,
                "notes": firmware.notes,
            }
            for name, firmware in FIRMWARES.items()
        },
        "modbus": {"provenance": MODBUS_PROVENANCE.value, "notes": MODBUS_NOTES},
    }


def _named_buses(options: argparse.Namespace) -> list[NamedBus]:
    plan = None if options.fault is None else read_fault_plan(options.fault)
    if options.fleet is not None:
        return read_fleet(options.fleet, plan)
    buses = []
    for position, bus in enumerate(_units_of_buses(options)):
        name = f"bus{position + 1}"
        faults = None if plan is None else plan.of(name, position)
        buses.append(
            NamedBus(
                name,
                make_bus(
                    bus,
                    protocol=options.protocol,
                    baudrate=options.baud,
                    turnaround=options.turnaround,
                    faults=faults,
                ),
                options.protocol,
            )
        )
    return buses


def _units_of_buses(options: argparse.Namespace) -> list[list[MassFlowController]]:
    buses: list[list[MassFlowController]] = []
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
        buses.append(units)
    return buses


def _select_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


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
