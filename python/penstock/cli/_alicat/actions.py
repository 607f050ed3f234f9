"""``penstock alicat``: one instrument, asked or set once."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from penstock.alicat import (
    AlicatError,
    Device,
    DeviceInfo,
    FlowController,
    GasState,
    PressureController,
    Reading,
    SetpointState,
    TimeUnit,
)
from penstock.cli._errors import CommandError, ExitCode, harmless, one_line
from penstock.record.clock import Cadence, SystemClock

_TIME_UNITS = {
    "ms": TimeUnit.MILLISECOND,
    "s": TimeUnit.SECOND,
    "min": TimeUnit.MINUTE,
    "h": TimeUnit.HOUR,
    "day": TimeUnit.DAY,
}


async def print_info(device: Device, options: argparse.Namespace) -> int:
    """Print the instrument's identification, and the columns of its data frame."""
    info = identification(device.info)
    scales = {
        statistic.value: {"value": scale.value, "unit": scale.unit_label}
        for statistic, scale in device.info.full_scale.items()
    }
    fields = [{"name": f.name, "kind": f.kind, "unit": f.unit} for f in device.field_schema()]
    if options.json:
        print(json.dumps({**info, "full_scale": scales, "fields": fields}, indent=2))
        return ExitCode.OK
    for name, value in info.items():
        if value:
            print(f"{name.replace('_', ' '):<14} {harmless(str(value))}")
    for name, scale in scales.items():
        print(f"{'full scale':<14} {scale['value']:g} {harmless(str(scale['unit']))} of {name}")
    for field in fields:
        print(f"{'field':<14} {field['name']} {field['unit'] or ''}".rstrip())
    return ExitCode.OK


async def read_once(device: Device, options: argparse.Namespace) -> int:
    """Print one reading."""
    _print_reading(await device.poll(), as_json=options.json)
    return ExitCode.OK


async def watch_readings(device: Device, options: argparse.Namespace) -> int:
    """Print a reading at every slot. A failed poll is reported, and polling continues."""
    clock = SystemClock()
    try:
        cadence = Cadence(clock.monotonic_ns(), options.rate)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    slot = done = 0
    code = ExitCode.OK
    while options.count is None or done < options.count:
        await clock.sleep_until_ns(cadence.target_ns(slot))
        slot = max(slot, cadence.slot_at(clock.monotonic_ns())) + 1
        done += 1
        try:
            _print_reading(await device.poll(), as_json=options.json, in_one_line=True)
        except AlicatError as error:
            code = ExitCode.INCOMPLETE
            print(f"penstock: {one_line(error)}", file=sys.stderr, flush=True)
    return code


async def set_setpoint(device: Device, options: argparse.Namespace) -> int:
    """Set the setpoint; exit code INCOMPLETE where the instrument does not follow."""
    state = await _controller(device).setpoint(options.value, options.unit_of_value)
    return print_setpoint(state, options)


def print_setpoint(state: SetpointState, options: argparse.Namespace) -> int:
    """Print a setpoint; CommandError with INCOMPLETE where it is not the one that was sent."""
    _print(
        {
            "unit_id": state.unit_id,
            "requested": state.requested,
            "current": state.current,
            "unit": state.unit_label,
            "accepted": state.accepted,
        },
        f"setpoint {state.requested:g} {state.unit_label or ''}".rstrip(),
        options,
    )
    if state.accepted:
        return ExitCode.OK
    raise CommandError(
        f"unit {state.unit_id} was sent {options.value:g} and reports {state.requested:g}: its "
        "setpoint source may be the analogue input",
        ExitCode.INCOMPLETE,
    )


async def choose_gas(device: Device, options: argparse.Namespace) -> int:
    """Print the gas, or select another one."""
    if options.list:
        known = await device.gas_list()
        text = "\n".join(f"{number:>3} {harmless(name)}" for number, name in known.items())
        _print({str(number): name for number, name in known.items()}, text, options)
        return ExitCode.OK
    gas = options.gas
    if gas is not None and gas.isdigit():
        gas = int(gas)
    return print_gas(await device.gas(gas, save=True if options.save else None), options)


def print_gas(state: GasState, options: argparse.Namespace) -> int:
    """Print a gas."""
    _print(
        {"unit_id": state.unit_id, "code": state.code, "gas": state.label, "name": state.long_name},
        f"{state.label} ({state.long_name or state.code})",
        options,
    )
    return ExitCode.OK


async def tare_sensor(device: Device, options: argparse.Namespace) -> int:
    """Tare a sensor, and print the reading after it."""
    if not options.yes:
        condition = "nothing flows" if options.sensor == "flow" else "the line is vented"
        raise CommandError(
            f"the tare was not sent: make sure that {condition}, then repeat it with --yes",
            ExitCode.USAGE,
        )
    tares = {
        "flow": device.tare_flow,
        "gauge": device.tare_gauge_pressure,
        "absolute": device.tare_absolute_pressure,
    }
    _print_reading((await tares[options.sensor]()).reading, as_json=options.json)
    return ExitCode.OK


async def set_ramp(device: Device, options: argparse.Namespace) -> int:
    """Print the ramp rate, or set it."""
    per = None if options.per is None else _TIME_UNITS[options.per]
    setting = await _controller(device).ramp_rate(options.rate, per)
    label = setting.rate_unit_label
    _print(
        {"unit_id": setting.unit_id, "max_ramp": setting.max_ramp, "unit": label},
        f"at most {setting.max_ramp:g} {label}" if setting.max_ramp else "at once",
        options,
    )
    return ExitCode.OK


def _controller(device: Device) -> FlowController | PressureController:
    if isinstance(device, FlowController | PressureController):
        return device
    raise CommandError(
        f"unit {device.unit_id} is a meter{model_in_brackets(device)} and takes no setpoint",
        ExitCode.USAGE,
    )


def model_in_brackets(device: Device) -> str:
    """Its model number in brackets; nothing for an instrument that does not tell it."""
    return f" ({harmless(device.info.model)})" if device.info.model else ""


def identification(info: DeviceInfo) -> dict[str, Any]:
    """What an instrument says of itself, for JSON."""
    return {
        "unit_id": info.unit_id,
        "manufacturer": info.manufacturer,
        "model": info.model,
        "serial": info.serial,
        "manufactured": info.manufactured,
        "calibrated": info.calibrated,
        "calibrated_by": info.calibrated_by,
        "firmware": info.software,
        "firmware_date": None if info.firmware_date is None else str(info.firmware_date),
        "kind": info.kind.value,
        "media": info.media.name,
        "capabilities": info.capabilities.name or "",
    }


def _print(as_json: Mapping[str, Any], text: str, options: argparse.Namespace) -> None:
    print(json.dumps(as_json) if options.json else text, flush=True)


def _print_reading(reading: Reading, *, as_json: bool, in_one_line: bool = False) -> None:
    values = reading.as_dict()
    if as_json:
        print(json.dumps({"unit_id": reading.unit_id, **values, "units": dict(reading.units)}))
    elif in_one_line:
        print("  ".join(f"{name} {value}" for name, value in values.items() if value != ""))
    else:
        for name, value in values.items():
            if value != "":
                print(f"{name:<18} {value} {reading.units.get(name, '')}".rstrip())
    sys.stdout.flush()
