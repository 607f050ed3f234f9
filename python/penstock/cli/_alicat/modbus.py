"""``penstock alicat --modbus``: one instrument that is asked by Modbus."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from penstock.alicat import AlicatValidationError, SerialSettings
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
from penstock.cli._errors import CommandError, ExitCode, harmless, one_line

__all__ = ["modbus_action", "open_by_modbus"]

Action = Callable[[Any, argparse.Namespace], Awaitable[int]]


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
            "this action needs the instrument's text protocol; by Modbus there are info, read, "
            "watch, set, gas and tare",
            ExitCode.USAGE,
        )
    return found


def _unit_of(text: str) -> tuple[str, str]:
    quantity, separator, label = text.partition("=")
    if not separator or not label:
        raise CommandError(
            f"--units {text!r} is not a unit of a quantity; write mass_flow=SCCM, with "
            "commas between",
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
        raise CommandError(f"a {options.family} takes no setpoint by Modbus", ExitCode.USAGE)
    return print_setpoint(await device.setpoint(options.value, options.unit_of_value), options)


async def _choose_gas(device: ModbusFlowMeter, options: argparse.Namespace) -> int:
    if options.save:
        raise CommandError("--save has no Modbus form; leave it out", ExitCode.USAGE)
    if options.list:
        raise CommandError("--list has no Modbus form; leave it out", ExitCode.USAGE)
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
