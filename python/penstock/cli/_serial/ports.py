"""Serial ports: ``penstock ports``, and the settings of one from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from penstock.cli._errors import CommandError, ExitCode, harmless
from penstock.cli._interrupts import Interrupts
from penstock.serial import (
    ByteSize,
    FlowControl,
    Parity,
    PortEvent,
    PortInfo,
    SerialConfig,
    SerialError,
    StopBits,
    list_serial_ports,
    watch_serial_ports,
)

_SIGNS = {"added": "+", "removed": "-"}


def run_ports(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print the ports; with ``--watch``, print events until a signal arrives."""
    if options.watch:
        with interrupts.deferred():
            anyio.run(_watch, options.json, interrupts)
        interrupts.raise_if_received()
        return ExitCode.OK
    ports = anyio.run(list_serial_ports)
    if options.json:
        print(json.dumps({"ports": [_as_json(port) for port in ports]}, indent=2))
        return ExitCode.OK
    for line in _table(ports):
        print(line)
    if not ports:
        print(
            "no serial ports found; plug in an adapter; if it does not appear, run `penstock "
            "doctor`",
            file=sys.stderr,
        )
    return ExitCode.OK


async def _watch(as_json: bool, interrupts: Interrupts) -> None:
    with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
        print("watching for serial ports; Ctrl-C ends", file=sys.stderr, flush=True)
        async with aclosing(watch_serial_ports(existing=True)) as events:
            async for event in events:
                print(_event_line(event, as_json), flush=True)


def _event_line(event: PortEvent, as_json: bool) -> str:
    if as_json:
        return json.dumps({"event": event.action, "port": _as_json(event.port)})
    return f"{_SIGNS[event.action]} {'  '.join(_words(event.port))}"


def _words(port: PortInfo) -> list[str]:
    return [port.device, harmless(port.description or ""), harmless(port.hwid or "")]


def _table(ports: list[PortInfo]) -> list[str]:
    """Return one line per port in aligned columns, each followed by the port's stable names."""
    rows = [_words(port) for port in ports]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    lines: list[str] = []
    for port, row in zip(ports, rows, strict=True):
        columns = [word.ljust(width) for word, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*columns, row[2]]).rstrip())
        lines += [f"    {link}" for link in links_to(port.device)]
    return lines


def _as_json(port: PortInfo) -> dict[str, Any]:
    return {**asdict(port), "links": links_to(port.device)}


def links_to(device: str, folder: Path = Path("/dev/serial/by-id")) -> list[str]:
    """Return the links in ``folder`` that point to ``device``: names that survive replugging."""
    try:
        links = sorted(folder.iterdir())
    except OSError:
        return []
    target = os.path.realpath(device)
    return [str(link) for link in links if os.path.realpath(link) == target]


# Serial port settings from the options of a command.

_ON = {"on": True, "off": False, None: None}


def config_from(options: argparse.Namespace) -> SerialConfig:
    """Return the configuration of ``options``; raise :class:`CommandError` if it is invalid."""
    try:
        return SerialConfig(
            baudrate=options.baud,
            byte_size=ByteSize(options.bits),
            parity=Parity(options.parity),
            stop_bits=StopBits(options.stop),
            flow_control=FlowControl(
                xon_xoff=options.flow == "xonxoff", rts_cts=options.flow == "rtscts"
            ),
            initial_rts=_ON[options.rts],
            initial_dtr=_ON[options.dtr],
        )
    except SerialError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def summary_of(config: SerialConfig) -> str:
    """Return the settings in short form, such as ``115200 8N1``."""
    parity = config.parity.value[0].upper()
    return f"{config.baudrate} {config.byte_size.value}{parity}{config.stop_bits.value}"


def device_error(error: SerialError) -> CommandError:
    """Convert a port's error to a :class:`CommandError`; its message already names the port."""
    return CommandError(str(error), ExitCode.DEVICE)
