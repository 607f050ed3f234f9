"""Opens the instrument of a ``penstock alicat`` command and runs the command's action on it."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from penstock.alicat import AlicatConfigurationError, AlicatError, SerialSettings, open_device
from penstock.cli._alicat.modbus import modbus_action, open_by_modbus
from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._alicat.remedies import in_own_words
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts

__all__ = ["run_action"]

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
