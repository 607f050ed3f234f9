"""``penstock alicat scan``: the instruments that answer."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

import anyio

from penstock.alicat import AlicatConfigurationError, find_devices
from penstock.alicat.modbus import find_modbus_devices
from penstock.cli._alicat.actions import identification
from penstock.cli._errors import CommandError, ExitCode, harmless, one_line
from penstock.cli._interrupts import Interrupts

_LETTERS = re.compile(r"([A-Z])-([A-Z])", re.ASCII)
_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)


class Found(list[dict[str, Any]]):
    """Facts of each instrument that answers, by name, and why others do not."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []


def run_scan(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print the instruments that answer; exit code DEVICE where none does."""
    found = search(options, interrupts)
    if options.json:
        print(json.dumps(found, indent=2))
    for entry in () if options.json else found:
        print(_line_of(entry))
    check_found(options, found)
    return ExitCode.OK


def search(options: argparse.Namespace, interrupts: Interrupts) -> Found:
    """The instruments that answer where ``options`` tell to look. None of them is changed.

    Raises:
        CommandError: the options are wrong.
        Interrupted: a signal has ended the search.
    """
    found = Found()

    async def main() -> None:
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            if options.modbus is None:
                await _ask_by_text(options, found, found.failures)
            else:
                await _ask_by_modbus(options, found, found.failures)

    with interrupts.deferred():
        try:
            anyio.run(main)
        except AlicatConfigurationError as error:
            raise CommandError(one_line(error), ExitCode.USAGE) from error
    interrupts.raise_if_received()
    return found


def check_found(options: argparse.Namespace, found: Found) -> None:
    """Tell why nothing has answered, if nothing has; CommandError (exit code DEVICE) then."""
    if found:
        return
    for sentence in dict.fromkeys(found.failures):
        print(f"penstock: {sentence}", file=sys.stderr)
    wider = "--units A-Z" if options.modbus is None else "--units 1-20"
    raise CommandError(
        f"no instrument answered; widen the search with {wider} and --bauds, and look for the "
        "port with `penstock ports`",
        ExitCode.DEVICE,
    )


async def _ask_by_text(
    options: argparse.Namespace, found: list[dict[str, Any]], failures: list[str]
) -> None:
    for result in await find_devices(
        options.ports or None,
        unit_ids="A" if options.units is None else _letters(options.units),
        baudrates=options.bauds,
        timeout=options.timeout,
    ):
        if result.device_info is not None:
            entry = {"port": result.port, "baudrate": result.baudrate}
            found.append({**entry, **identification(result.device_info)})
        elif result.error is not None:
            failures.append(one_line(result.error))


async def _ask_by_modbus(
    options: argparse.Namespace, found: list[dict[str, Any]], failures: list[str]
) -> None:
    if options.modbus == "tcp" and not options.ports:
        raise CommandError(
            "--modbus tcp needs the addresses of the servers, such as tcp://gateway:502",
            ExitCode.USAGE,
        )
    for result in await find_modbus_devices(
        options.ports or None,
        units=_numbers("1" if options.units is None else options.units),
        protocol=options.modbus,
        baudrates=options.bauds,
        timeout=options.timeout,
    ):
        identity = result.identity
        if identity is not None:
            found.append(
                {
                    "port": result.port,
                    "baudrate": result.baudrate,
                    "unit_id": str(result.unit),
                    "family": identity.family,
                    "serial": identity.serial,
                }
            )
        elif result.error is not None:
            failures.append(one_line(result.error))


def _letters(text: str) -> list[str]:
    letters: list[str] = []
    for part in text.upper().split(","):
        match = _LETTERS.fullmatch(part.strip())
        if match is None:
            letters += part.strip()  # ABC; what is not a letter is refused by the search
            continue
        span = range(ord(match[1]), ord(match[2]) + 1)
        if not span:
            raise CommandError(
                f"--units {text!r}: {part.strip()} goes backwards; write A-F, A,C or ABC",
                ExitCode.USAGE,
            )
        letters += map(chr, span)
    return letters


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not span:
            raise CommandError(
                f"--units {text!r} is not a list of Modbus numbers; write 1-20, or 1,2,7",
                ExitCode.USAGE,
            )
        numbers += span
    return numbers


def _line_of(entry: dict[str, Any]) -> str:
    place = f"{entry['port']}  {entry['baudrate']} baud  unit {entry['unit_id']}"
    if "family" in entry:
        serial = f"  serial {harmless(entry['serial'])}" if entry["serial"] else ""
        return f"{place}  {entry['family']}{serial}"
    model = harmless(str(entry["model"]))
    return f"{place}  {model}  {entry['firmware']}  serial {entry['serial']}"
