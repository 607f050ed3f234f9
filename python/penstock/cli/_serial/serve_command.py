"""``penstock serial serve``: a serial port on the network, over RFC 2217."""

from __future__ import annotations

import argparse
import sys

import anyio

from penstock.cli._errors import CommandError, ExitCode, first_error, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._loopback import is_loopback
from penstock.cli._serial.ports import config_from, device_error
from penstock.serial import SerialConfig, SerialError
from penstock.serial.rfc2217 import serve_serial_port


def run_serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Serve until a signal arrives or the device is unplugged."""
    config = config_from(options)
    try:
        with interrupts.deferred():
            anyio.run(_serve, options, config, interrupts)
    except BaseExceptionGroup as group:
        failures, others = group.split(OSError)
        if failures is None or others is not None:
            raise
        error = first_error(failures)
        if isinstance(error, SerialError):
            raise device_error(error) from None
        raise CommandError(
            f"cannot listen on {options.host} port {options.port} ({one_line(error)}); "
            "choose another with --port or --host",
            ExitCode.DEVICE,
        ) from None
    interrupts.raise_if_received()
    return ExitCode.OK


async def _serve(options: argparse.Namespace, config: SerialConfig, interrupts: Interrupts) -> None:
    async with anyio.create_task_group() as tasks:
        with interrupts.stopping(tasks.cancel_scope.cancel):

            async def serve(*, task_status: anyio.abc.TaskStatus[int]) -> None:
                await serve_serial_port(
                    options.device,
                    host=options.host,
                    port=options.port,
                    config=config,
                    task_status=task_status,
                )

            number = await tasks.start(serve)
            host = f"[{options.host}]" if ":" in options.host else options.host
            print(f"{options.device} is served at rfc2217://{host}:{number}", flush=True)
            if not is_loopback(options.host):
                print(
                    "penstock: anyone who reaches this address controls the device", file=sys.stderr
                )
            await anyio.sleep_forever()
