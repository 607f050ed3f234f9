"""Opens the instrument of a ``penstock alicat`` command and runs the command's action on it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from penstock.alicat import (
    AlicatConfigurationError,
    AlicatError,
    AlicatValidationError,
    SerialSettings,
    open_device,
)
from penstock.alicat.modbus import (
    ModbusFlowController,
    ModbusFlowMeter,
    open_modbus_device,
    registers_of_family,
)
from penstock.cli._alicat.actions import choose_gas as choose_gas_of_text
from penstock.cli._alicat.actions import (
    print_gas,
    print_info,
    print_setpoint,
    read_once,
    tare_sensor,
    watch_readings,
)
from penstock.cli._alicat.actions import set_setpoint as set_setpoint_of_text
from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._errors import CommandError, ExitCode, harmless, one_line
from penstock.cli._interrupts import Interrupts

Action = Callable[[Any, argparse.Namespace], Awaitable[int]]


def run_action(action: Action, options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Open the instrument that ``options`` name, and do one thing with it.

    :class:`CommandError` with USAGE where an argument is not possible, with DEVICE for all else
    that an instrument or its port can refuse.
    """
    code = ExitCode.OK

    async def main() -> None:
        nonlocal code
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            chosen, device = await _opened(action, options)
            async with device:
                code = ExitCode(await chosen(device, options))

    with interrupts.deferred():
        try:
            anyio.run(main)
        except AlicatConfigurationError as error:
            raise CommandError(in_own_words(one_line(error)), ExitCode.USAGE) from error
        except AlicatError as error:
            raise CommandError(in_own_words(one_line(error)), ExitCode.DEVICE) from error
    interrupts.raise_if_received()
    return code


async def _opened(action: Action, options: argparse.Namespace) -> tuple[Action, Any]:
    """The instrument, and what to do with it."""
    if options.modbus is not None:
        return modbus_action(action), await open_by_modbus(options)
    for name in ("family", "units", "decimals"):
        if getattr(options, name) not in (None, "", MODBUS_FAMILIES[0]):
            raise CommandError(f"--{name} is for Modbus; add --modbus rtu", ExitCode.USAGE)
    settings = SerialSettings(options.port, baudrate=options.baud)
    unit = "A" if options.unit is None else options.unit
    return action, await open_device(
        options.port,
        unit_id=unit,
        serial=settings,
        timeout=options.timeout,
        assume_capabilities=options.assume,
    )


# The remedies of errors in the words of the command line.
#
# The library names its own functions. Each pair is a phrase of one of its sentences, and what a
# person at the command line does instead.


REMEDIES: Final = (
    (
        "open a bidirectional instrument with "
        "assume_capabilities=Capability.BIDIRECTIONAL to allow it",
        "add --assume bidirectional if the instrument is bidirectional",
    ),
    ("repeat it with confirm=True", "repeat it with --yes"),
    (
        "state unit=... with it, or call refresh_data_frame_format() to accept the new unit",
        "state the unit with --in",
    ),
    ("state the time_unit that max_ramp refers to, even for 0", "state the time with --per"),
    ("gas_list() names those", "penstock alicat gas PORT --list names those"),
    ("or with engineering_units()", "or with penstock alicat unit"),
    ("choose the serial line with setpoint_source('S')", "penstock alicat source PORT S"),
    ("and omit unit=... if it is the same", "and omit --in if it is the same"),
)

_ASSUMED = re.compile(r"assume_capabilities=Capability\.(\w+)")


def in_own_words(sentence: str) -> str:
    """A sentence of the library, with the remedies of the command line."""
    for library, here in REMEDIES:
        sentence = sentence.replace(library, here)
    return _ASSUMED.sub(lambda m: f"--assume {m[1].lower().replace('_', '-')}", sentence)


# ``penstock alicat --modbus``: one instrument that is asked by Modbus.


async def open_by_modbus(options: argparse.Namespace) -> ModbusFlowMeter:
    """Open the instrument that ``options`` name.

    Raises:
        CommandError: (USAGE) an option is not possible.
        AlicatError: as for :func:`open_modbus_device`.
    """
    unit = "1" if options.unit is None else options.unit
    if not unit.isascii() or not unit.isdigit():
        raise CommandError(
            f"--unit {unit!r} is not a Modbus number; write one from 1 to 247", ExitCode.USAGE
        )
    try:
        registers = registers_of_family(options.family, decimals=options.decimals)
    except AlicatValidationError as error:
        raise CommandError(f"--decimals: {one_line(error)}", ExitCode.USAGE) from error
    return await open_modbus_device(
        options.port,
        unit=int(unit),
        protocol=options.modbus,
        serial=SerialSettings(options.port, baudrate=options.baud),
        timeout=options.timeout,
        registers=registers,
        assume_capabilities=options.assume,
        units=dict(_unit_of(part) for part in options.units.split(",") if part),
    )


def modbus_action(action: Action) -> Action:
    """What does for a Modbus instrument what ``action`` does for others.

    Raises:
        CommandError: (USAGE) there is nothing.
    """
    found = _ACTIONS.get(action)
    if found is None:
        raise CommandError(
            "this action needs the instrument's text protocol; over Modbus, the actions are info, "
            "read, watch, set, gas and tare",
            ExitCode.USAGE,
        )
    return found


def _unit_of(text: str) -> tuple[str, str]:
    quantity, separator, label = text.partition("=")
    if not separator or not label:
        raise CommandError(
            f"--units {text!r} is not QUANTITY=UNIT; write mass_flow=SCCM, separated by commas",
            ExitCode.USAGE,
        )
    return quantity.strip(), label.strip()


async def _print_info(device: ModbusFlowMeter, options: argparse.Namespace) -> int:
    facts = dict(device.facts())
    fields = [{"name": f.name, "kind": f.kind, "unit": f.unit} for f in device.field_schema()]
    if options.json:
        print(json.dumps({**facts, "fields": fields}, indent=2))
        return ExitCode.OK
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<14} {harmless(value)}")
    for field in fields:
        print(f"{'field':<14} {field['name']} {field['unit'] or ''}".rstrip())
    return ExitCode.OK


async def _set_setpoint(device: ModbusFlowMeter, options: argparse.Namespace) -> int:
    if not isinstance(device, ModbusFlowController):
        raise CommandError(
            f"a {options.family} does not take a setpoint over Modbus", ExitCode.USAGE
        )
    return print_setpoint(await device.setpoint(options.value, options.unit_of_value), options)


async def _choose_gas(device: ModbusFlowMeter, options: argparse.Namespace) -> int:
    if options.save:
        raise CommandError("--save is not available over Modbus; leave it out", ExitCode.USAGE)
    if options.list:
        raise CommandError("--list is not available over Modbus; leave it out", ExitCode.USAGE)
    gas = options.gas
    return print_gas(await device.gas(int(gas) if gas and gas.isdigit() else gas), options)


_ACTIONS: Final[dict[Action, Action]] = {
    print_info: _print_info,
    read_once: read_once,
    watch_readings: watch_readings,
    set_setpoint_of_text: _set_setpoint,
    choose_gas_of_text: _choose_gas,
    tare_sensor: tare_sensor,
}
