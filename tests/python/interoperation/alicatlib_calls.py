"""Program: makes every call of alicatlib, and reports each result as a line of JSON.

usage: alicatlib_calls.py ADDRESS device | bus | blocking
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import alicatlib
import alicatlib.sync
import anyio
from alicatlib.commands import Capability, Commands, GasSelectRequest
from alicatlib.devices.flow_controller import FlowController
from alicatlib.devices.models import StpNtpMode, TimeUnit, TotalizerLimitMode, TotalizerMode
from alicatlib.devices.reading import Reading

_TIMEOUT_S = 30.0
_EVERY_CAPABILITY = ~Capability.NONE

CALLS: tuple[tuple[Any, ...], ...] = (
    ("poll", (), {}),
    ("snapshot", (), {}),
    ("request", (["Mass_Flow", "Abs_Press"],), {}),
    ("gas", (), {}),
    ("gas", ("Ar",), {}),
    ("gas_list", (), {}),
    ("engineering_units", ("Mass_Flow",), {}),
    ("full_scale", ("Mass_Flow",), {}),
    ("setpoint", (), {}),
    ("setpoint", (50.0,), {}),
    ("setpoint_source", (), {}),
    ("setpoint_source", ("S",), {}),
    ("loop_control_variable", (), {}),
    ("loop_control_variable", ("Vol_Flow_Setpt",), {}),
    ("loop_control_variable", (37,), {}),
    ("hold_valves", (), {}),
    ("hold_valves_closed", (), {"confirm": True}),
    ("cancel_valve_hold", (), {}),
    ("valve_drive", (), {}),
    ("ramp_rate", (50.0, TimeUnit.SECOND), {}),
    ("ramp_rate", (), {}),
    ("deadband_limit", (2.0,), {"save": False}),
    ("deadband_limit", (), {}),
    ("auto_tare", (True, 1.5), {}),
    ("auto_tare", (), {}),
    ("power_up_tare", (True,), {}),
    ("power_up_tare", (), {}),
    ("zero_band", (1.5,), {}),
    ("zero_band", (), {}),
    ("average_timing", (5, 250), {}),
    ("average_timing", (5,), {}),
    ("stp_ntp_pressure", (StpNtpMode.STP,), {}),
    ("stp_ntp_temperature", (StpNtpMode.STP,), {}),
    ("analog_output_source", (), {}),
    ("blink_display", (10,), {}),
    ("lock_display", (), {}),
    ("unlock_display", (), {}),
    ("user_data", (1, "Line 3"), {}),
    ("user_data", (1,), {}),
    ("totalizer_save", (True,), {"save": True}),
    ("totalizer_save", (), {}),
    ("tare_flow", (), {}),
    ("tare_gauge_pressure", (), {}),
    ("tare_absolute_pressure", (), {}),
    (
        "totalizer_config",
        (),
        {
            "flow_statistic_code": 5,
            "mode": TotalizerMode.POSITIVE_ONLY,
            "limit_mode": TotalizerLimitMode.STOP_AT_MAX,
            "digits": 10,
            "decimal_place": 2,
        },
    ),
    ("totalizer_config", (), {}),
    ("totalizer_reset", (), {"confirm": True}),
    ("totalizer_reset_peak", (), {"confirm": True}),
    ("totalizer_config", (), {"flow_statistic_code": 1}),
)


def plain(value: object) -> Any:
    """The value in types of JSON; a reading as its values and status codes."""
    if isinstance(value, Reading):
        return dict(value.values) | {"status": sorted(code.value for code in value.status)}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def report(call: str, value: object = None, error: str | None = None) -> None:
    print(json.dumps({"call": call, "value": plain(value), "error": error}), flush=True)


async def use_device(address: str) -> None:
    device = await alicatlib.open_device(
        address, timeout=_TIMEOUT_S, assume_capabilities=_EVERY_CAPABILITY
    )
    report("info", device.info)
    for name, arguments, options in CALLS:
        try:
            report(name, await getattr(device, name)(*arguments, **options))
        except alicatlib.AlicatError as error:
            report(name, error=type(error).__name__)
        if name == "totalizer_config":
            # The total has a column of the data frame, which the client does not notice by itself.
            await device.session.refresh_data_frame_format()
    report("execute", await device.execute(Commands.GAS_SELECT, GasSelectRequest()))
    frames: list[Reading] = []
    async with device.stream(rate_hz=50) as stream:
        async for frame in stream:
            frames.append(frame)
            if len(frames) == 3:
                break
    report("stream", frames)
    await device.session.change_unit_id("B", confirm=True)
    report("change_unit_id", (await device.poll()).unit_id)
    session = device.session
    report("refresh_firmware", str(await session.refresh_firmware()))
    try:
        await session.refresh_capabilities()
    except NotImplementedError:
        report("refresh_capabilities", "not implemented")
    report("refresh_data_frame_format", bool(await session.refresh_data_frame_format()))
    session.invalidate_data_frame_format()
    report("invalidate_data_frame_format", (await session.poll()).unit_id)
    report("update_setpoint_source", session.update_setpoint_source("S"))
    report("update_loop_control_variable", session.update_loop_control_variable(37))
    await session.change_baud_rate(38400, confirm=True)
    report("change_baud_rate", (await device.poll()).unit_id)
    await device.close()
    report("close")
    report("methods", public_methods(FlowController))
    report("session methods", public_methods(type(session)))


def public_methods(owner: type) -> list[str]:
    found = inspect.getmembers(owner, inspect.isfunction)
    return [name for name, _ in found if not name.startswith("_")]


async def use_bus(address: str) -> None:
    found = await alicatlib.find_devices(
        [address], unit_ids=("A",), baudrates=(19200,), timeout=_TIMEOUT_S
    )
    report("find_devices", [(one.ok, one.device_info and one.device_info.serial) for one in found])
    report("probe", (await alicatlib.probe(address, timeout=_TIMEOUT_S)).ok)
    async with alicatlib.AlicatManager() as manager:
        device = await manager.add("one", address, timeout=_TIMEOUT_S)
        report("add", manager.names)
        report("get", manager.get("one") is device)
        report("poll", await manager.poll())
        report("request", await manager.request(["Mass_Flow"]))
        report("execute", await manager.execute(Commands.GAS_SELECT, {"one": GasSelectRequest()}))
        async with alicatlib.record(manager, rate_hz=50, duration=0.2) as recording:
            ticks = [samples async for samples in recording.stream]
        report("record", [plain(samples["one"].reading) for samples in ticks])
        await manager.remove("one")
        report("remove", manager.names)
        await manager.close()
        report("close", manager.closed)
    report("methods", public_methods(alicatlib.AlicatManager))
    report(
        "functions",
        [name for name in alicatlib.__all__ if inspect.isroutine(getattr(alicatlib, name))],
    )


def use_blocking(address: str) -> None:
    with alicatlib.sync.Alicat.open(address, timeout=_TIMEOUT_S) as device:
        report("poll", device.poll())
        report("setpoint", device.setpoint(25.0))


if __name__ == "__main__":
    match sys.argv[2]:
        case "device":
            anyio.run(use_device, sys.argv[1])
        case "bus":
            anyio.run(use_bus, sys.argv[1])
        case _:
            use_blocking(sys.argv[1])
