"""``penstock alicat``: one instrument, asked or set once."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from penstock.alicat import (
    AlicatConfigurationError,
    AlicatError,
    Device,
    DeviceInfo,
    FlowController,
    PressureController,
    Reading,
    SerialSettings,
    TimeUnit,
    find_devices,
    open_device,
)
from penstock.cli.errors import CommandError, ExitCode, harmless, one_line
from penstock.cli.interrupts import Interrupts
from penstock.record.cadence import Cadence
from penstock.record.clock import SystemClock

__all__ = [
    "choose_gas",
    "read_once",
    "run_action",
    "run_scan",
    "set_ramp",
    "set_setpoint",
    "tare_sensor",
    "tell_info",
    "watch_readings",
]

Action = Callable[[Device, argparse.Namespace], Awaitable[int]]

_TIME_UNITS = {
    "ms": TimeUnit.MILLISECOND,
    "s": TimeUnit.SECOND,
    "min": TimeUnit.MINUTE,
    "h": TimeUnit.HOUR,
    "day": TimeUnit.DAY,
}


def run_action(action: Action, options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Open the instrument that *options* name, and do one thing with it.

    :class:`CommandError` with USAGE where an argument is not possible, with DEVICE for all else
    that an instrument or its port can refuse.
    """
    code = ExitCode.OK

    async def main() -> None:
        nonlocal code
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            settings = SerialSettings(options.port, baudrate=options.baud)
            device = await open_device(
                options.port, unit_id=options.unit, serial=settings, timeout=options.timeout
            )
            async with device:
                code = ExitCode(await action(device, options))

    with interrupts.deferred():
        try:
            anyio.run(main)
        except AlicatConfigurationError as error:
            raise CommandError(one_line(error), ExitCode.USAGE) from error
        except AlicatError as error:
            raise CommandError(one_line(error), ExitCode.DEVICE) from error
    interrupts.raise_if_received()
    return code


def run_scan(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print the instruments that answer; exit code DEVICE where none does."""
    found: list[dict[str, Any]] = []
    failures: list[str] = []

    async def main() -> None:
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            for result in await find_devices(
                options.ports or None,
                unit_ids=options.units,
                baudrates=options.bauds,
                timeout=options.timeout,
            ):
                if result.device_info is not None:
                    entry = {"port": result.port, "baudrate": result.baudrate}
                    found.append({**entry, **_info_of(result.device_info)})
                elif result.error is not None:
                    failures.append(one_line(result.error))

    with interrupts.deferred():
        try:
            anyio.run(main)
        except AlicatConfigurationError as error:
            raise CommandError(one_line(error), ExitCode.USAGE) from error
    interrupts.raise_if_received()
    if options.json:
        print(json.dumps(found, indent=2))
    for entry in () if options.json else found:
        print(
            f"{entry['port']}  {entry['baudrate']} baud  unit {entry['unit_id']}  "
            f"{harmless(str(entry['model']))}  {entry['firmware']}  serial {entry['serial']}"
        )
    if found:
        return ExitCode.OK
    for sentence in dict.fromkeys(failures):
        print(f"penstock: {sentence}", file=sys.stderr)
    raise CommandError(
        "no instrument answered; widen the search with --units ABC and --bauds, and look for the "
        "port with `penstock ports`",
        ExitCode.DEVICE,
    )


async def tell_info(device: Device, options: argparse.Namespace) -> int:
    """Print what the instrument says of itself, and the columns of its data frame."""
    info = _info_of(device.info)
    fields = [{"name": f.name, "kind": f.kind, "unit": f.unit} for f in device.field_schema()]
    if options.json:
        print(json.dumps({**info, "fields": fields}, indent=2))
        return ExitCode.OK
    for name, value in info.items():
        if value:
            print(f"{name.replace('_', ' '):<14} {harmless(str(value))}")
    for field in fields:
        print(f"{'field':<14} {field['name']} {field['unit'] or ''}".rstrip())
    return ExitCode.OK


async def read_once(device: Device, options: argparse.Namespace) -> int:
    """Print one reading."""
    _print_reading(await device.poll(), as_json=options.json)
    return ExitCode.OK


async def watch_readings(device: Device, options: argparse.Namespace) -> int:
    """Print a reading at every slot; a failed poll is told, and the next one tried."""
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
        f"unit {state.unit_id} was told {options.value:g} and reports {state.requested:g}: its "
        "setpoint source may be the analogue input",
        ExitCode.INCOMPLETE,
    )


async def choose_gas(device: Device, options: argparse.Namespace) -> int:
    """Tell the gas, or choose another."""
    gas = options.gas
    if gas is not None and gas.isdigit():
        gas = int(gas)
    state = await device.gas(gas, save=True if options.save else None)
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
    """Tell the ramp rate, or set it."""
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
        f"unit {device.unit_id} is a meter ({device.info.model}) and takes no setpoint",
        ExitCode.USAGE,
    )


def _info_of(info: DeviceInfo) -> dict[str, Any]:
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
