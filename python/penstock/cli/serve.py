"""``penstock serial serve``: a port on the network, by RFC 2217."""

from __future__ import annotations

import argparse
import sys

import anyio

from penstock.cli.errors import CommandError, ExitCode, first_error, one_line
from penstock.cli.interrupts import Interrupts
from penstock.cli.port_settings import config_from, device_error
from penstock.serial import SerialConfig, SerialError
from penstock.serial.rfc2217 import serve_serial_port

__all__ = ["run_serve"]


def run_serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Serve until a signal ends it, or the device is unplugged."""
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
            if options.host not in ("127.0.0.1", "::1", "localhost"):
                print(
                    "penstock: anyone who reaches this address drives the device", file=sys.stderr
                )
            await anyio.sleep_forever()
