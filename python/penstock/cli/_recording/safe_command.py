"""``penstock safe``: bring the controllers of a configuration file into their safe states, now.

For what a run cannot do itself: after SIGKILL, a crash or a watchdog nothing of it is left. A
service manager calls this command then (``ExecStopPost=``).
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

import anyio

from penstock.alicat import AlicatError, AlicatManager
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.config import load_config
from penstock.cli._recording.instruments import groups_by_port, open_instrument
from penstock.cli._recording.plan import DevicePlan
from penstock.cli._recording.plan_run import check_native_loop
from penstock.cli._recording.safe_states import bring_to_safe_state

_PAUSE_S = 0.5


def run_safe(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Bring the instruments of ``options.config`` into their safe states; return the exit code.

    Raises:
        CommandError: (exit code DEVICE) one was not brought there within ``options.timeout``.
    """
    check_native_loop()
    config = load_config(options.config)
    devices = [
        dataclasses.replace(device, steps=(), limits=())
        for device in config.devices
        if device.safe_state is not None
    ]
    if not devices:
        raise CommandError(
            f"{options.config} has no safe_state; write one below the [[device]] that needs it",
            ExitCode.CONFIG,
        )
    from penstock import run

    with interrupts.deferred():
        failed = run(_bring_all(devices, options.timeout, interrupts))
    interrupts.raise_if_received()
    if failed:
        raise CommandError(
            f"{', '.join(failed)} did not reach the safe state; close the supply by hand",
            ExitCode.DEVICE,
        )
    return ExitCode.OK


async def _bring_all(
    devices: Sequence[DevicePlan], timeout: float, interrupts: Interrupts
) -> list[str]:
    left = {device.name: "it was not asked" for device in devices}
    with anyio.CancelScope() as stopped, interrupts.stopping(stopped.cancel):
        async with AlicatManager() as manager, anyio.create_task_group() as tasks:
            for group in groups_by_port(devices):
                tasks.start_soon(_bring, manager, group, timeout, left)
    for device in devices:
        if device.name in left:
            print(f"{device.name}: NOT reached: {left[device.name]}", flush=True)
    return list(left)


async def _bring(
    manager: AlicatManager, devices: Sequence[DevicePlan], timeout: float, left: dict[str, str]
) -> None:
    """The devices of one port, by turns, so that a dead one does not hold up the others."""
    with anyio.move_on_after(timeout):
        while waiting := [device for device in devices if device.name in left]:
            for device in waiting:
                try:
                    if device.name not in manager.names:
                        await open_instrument(manager, device)
                    message = await bring_to_safe_state(manager, device)
                except (AlicatError, OSError, CommandError) as error:
                    left[device.name] = one_line(error)
                else:
                    del left[device.name]
                    print(f"{device.name}: {message}", flush=True)
            if any(device.name in left for device in devices):
                await anyio.sleep(_PAUSE_S)
