"""``penstock watch``: the live values of the instruments of a configuration file."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
import sys
from pathlib import Path
from typing import TextIO

from penstock.cli._dashboard.plan import DashPlan, with_layout
from penstock.cli._errors import ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.config import load_config
from penstock.cli._recording.display import Display, open_display
from penstock.cli._recording.plan import RunPlan
from penstock.cli._recording.progress import DeviceProgress, Progress


def run_watch(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Show the instruments of ``options.config`` until Ctrl-C or for ``options.duration``.

    Ctrl-C is the usual end, with exit code 0. Writes no file and sends no setpoint.
    """
    display = JsonDisplay(sys.stdout) if options.json else None
    return watch_instruments(options.config, interrupts, duration=options.duration, display=display)


def watch_instruments(
    path: str,
    interrupts: Interrupts,
    *,
    duration: float | None = None,
    display: Display | None = None,
    dash: DashPlan | None = None,
    metrics: str | None = None,
) -> int:
    """Poll the instruments of the configuration file at ``path``; return the exit code.

    They are shown in ``display``, by default in that of the terminal, and on the page of ``dash``.
    ``metrics`` is the address for Prometheus.
    """
    config = load_config(path)
    plan = RunPlan(
        devices=tuple(
            dataclasses.replace(device, steps=(), safe_state=None) for device in config.devices
        ),
        out=Path(),
        rate_hz=config.rate_hz,
        duration=duration,
        formats=(),
        plot=False,
        dash=with_layout(dash, config),
        metrics=metrics,
    )
    progress = Progress(
        {device.name: DeviceProgress(device) for device in plan.devices},
        plan.rate_hz,
        plan.duration,
    )
    display = display or open_display(sys.stdout)
    from penstock import run
    from penstock.cli._recording.acquisition import acquire

    try:
        with interrupts.deferred():
            run(acquire(plan, progress, display, interrupts))
            with contextlib.suppress(OSError, ValueError):
                display.update(progress)
    finally:
        with contextlib.suppress(OSError, ValueError):
            display.close()
    if interrupts.signum != signal.SIGINT:
        interrupts.raise_if_received()
    return ExitCode.INCOMPLETE if progress.errors else ExitCode.OK


class JsonDisplay:
    """One JSON object a second, for programs."""

    interval = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        """Nothing: notes are for people."""

    def update(self, progress: Progress) -> None:
        """Write the newest value of every device."""
        values = {
            name: {
                "quantity": device.quantity.name if device.quantity is not None else None,
                "value": device.value,
                "unit": device.unit or None,
                "setpoint": device.setpoint,
                "status": device.status,
                "error": device.error,
                "samples": device.samples,
                "late": device.late,
                "errors": device.errors,
            }
            for name, device in progress.devices.items()
        }
        record = {"elapsed_s": round(progress.elapsed, 3), "devices": values}
        self._stream.write(f"{json.dumps(record)}\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: there is no terminal state to restore."""
