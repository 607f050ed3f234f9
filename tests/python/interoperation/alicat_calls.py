"""Program: makes every call of alicat's FlowController, and reports each result as a line of JSON.

usage: alicat_calls.py ADDRESS calls | basis | connected FlowController | connected FlowMeter |
       meter | methods | command-line ARGUMENT ...
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import sys
from typing import Any

import alicat
from alicat.basis import BASISController, BASISMeter
from alicat.util import SerialClient, TcpClient

# The published ones, 0.15 s and 1 s, are too short for a loaded machine.
_TIMEOUT_S = 30.0
SerialClient.__init__.__defaults__ = (19200, _TIMEOUT_S)
TcpClient.__init__.__defaults__ = (_TIMEOUT_S,)

CALLS: tuple[tuple[Any, ...], ...] = (
    ("get",),
    ("set_gas", "Ar"),
    ("get",),
    ("set_gas", 8),
    ("get_firmware",),
    ("create_mix", 240, "Mix1", {"N2": 50, "O2": 50}),
    ("set_gas", 240),
    ("get",),
    ("set_gas", "N2"),
    ("delete_mix", 240),
    ("lock",),
    ("is_locked",),
    ("unlock",),
    ("is_locked",),
    ("tare_pressure",),
    ("tare_volumetric",),
    ("reset_totalizer",),
    ("flush",),
    ("set_flow_rate", 50.0),
    ("get",),
    ("get_totalizer_batch",),
    ("set_totalizer_batch", 5000.0),
    ("get_totalizer_batch",),
    ("hold",),
    ("set_flow_rate", 20.0),
    ("cancel_hold",),
    ("get",),
    ("get_pid",),
    ("set_pid", 100, 200, 300, "PD2I"),
    ("get_pid",),
    ("set_ramp_config", {"up": True, "down": False, "zero": True, "power": False}),
    ("get_ramp_config",),
    ("set_maxramp", 50.0, "s"),
    ("get_maxramp",),
    ("set_maxramp", 0.0, "s"),
    ("set_pressure", 20.0),
    ("get",),
    ("set_flow_rate", 0.0),
    ("get",),
)

BASIS_CALLS: tuple[tuple[Any, ...], ...] = (
    ("get",),
    ("set_gas", "CO2"),
    ("get",),
    ("set_gas", "N2"),
    ("get_firmware",),
    ("tare", 100),
    ("reset_totalizer",),
    ("set_flow_rate", 20.0),
    ("hold", 30.0),
    ("cancel_hold",),
    ("get",),
    ("set_totalizer_batch", 5000.0),
    ("get_totalizer_batch",),
    ("get_pid",),
    ("set_pid", 400, 3000),
    ("get_pid",),
    ("flush",),
)


def report(call: str, value: object = None, error: str | None = None) -> None:
    print(json.dumps({"call": call, "value": value, "error": error}), flush=True)


async def make_calls(controller: Any, calls: tuple[tuple[Any, ...], ...]) -> None:
    for name, *arguments in calls:
        # It waits this long for bytes that are not there.
        controller.hw.timeout = 0.05 if name == "flush" else _TIMEOUT_S
        try:
            report(name, await getattr(controller, name)(*arguments))
        except Exception as error:
            report(name, error=f"{type(error).__name__}: {error}")
    await controller.hw.close()
    await controller.close()
    try:
        await controller.get()
    except OSError:
        report("close")
    report("methods", public_methods(type(controller)))


def public_methods(owner: type) -> list[str]:
    found = inspect.getmembers(owner, inspect.iscoroutinefunction)
    return [name for name, _ in found if not name.startswith("_")]


def report_all_methods_and_options() -> None:
    """The methods of each class, and the options of the command line."""
    for owner in (alicat.FlowMeter, alicat.FlowController, BASISMeter, BASISController):
        report(owner.__name__, public_methods(owner))
    options: list[str] = []

    def list_options(parser: argparse.ArgumentParser, *arguments: Any, **keywords: Any) -> Any:
        options.extend(o for action in parser._actions for o in action.option_strings)
        raise SystemExit

    argparse.ArgumentParser.parse_args = list_options  # type: ignore[method-assign]
    with contextlib.suppress(SystemExit):
        alicat.command_line([])
    report("options", options)


async def read_as_meter(address: str) -> None:
    async with alicat.FlowMeter(address) as meter:
        report("get", await meter.get())


async def main(address: str, scenario: str, *arguments: str) -> None:
    if scenario == "calls":
        await make_calls(alicat.FlowController(address), CALLS)
    elif scenario == "basis":
        await make_calls(BASISController(address), BASIS_CALLS)
    elif scenario == "connected":
        report("is_connected", await getattr(alicat, arguments[0]).is_connected(address))
    else:
        await read_as_meter(address)


if __name__ == "__main__":
    if sys.argv[2] == "command-line":
        alicat.command_line([sys.argv[1], *sys.argv[3:]])
    elif sys.argv[2] == "methods":
        report_all_methods_and_options()
    else:
        asyncio.run(main(*sys.argv[1:]))
