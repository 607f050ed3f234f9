"""Opens the instrument of a ``penstock alicat`` command and runs the command's action on it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from penstock.alicat import AlicatConfigurationError, AlicatError, SerialSettings, open_device
from penstock.cli._alicat.modbus import modbus_action, open_by_modbus
from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts

__all__ = ["REMEDIES", "in_own_words", "run_action"]

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
        "state unit=... with it, or call refresh_data_frame_format() to take the new unit for "
        "granted",
        "state the unit with --in",
    ),
    ("state the time_unit that max_ramp refers to, also for 0", "state the time with --per"),
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
