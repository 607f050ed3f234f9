"""``penstock demo``: four simulated mass-flow controllers, recorded like real ones."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.cli.interrupts import Interrupts
from penstock.cli.output import default_folder
from penstock.cli.plan import DevicePlan, RunPlan, SetpointStep
from penstock.cli.run import carry_out
from penstock.cli.simulator import simulated_buses

__all__ = ["run_demo"]

_BAUDRATE = 115200
"""Two controllers on one bus at 20 Hz need it: at 19200 baud one answer takes 25 ms of wire."""


@dataclass(frozen=True, slots=True)
class _Controller:
    name: str
    unit_id: str
    bus: int
    full_scale: float
    levels: tuple[float, ...]
    """Setpoints as parts of the full scale, spread evenly over the run."""


_CONTROLLERS = (
    _Controller("argon", "A", 0, 500.0, (0.4, 0.8, 0.2)),
    _Controller("nitrogen", "B", 0, 100.0, (0.75, 0.25, 0.5)),
    _Controller("oxygen", "C", 1, 5000.0, (0.2, 0.5, 0.9)),
    _Controller("helium", "D", 2, 10000.0, (0.6, 0.1, 0.7)),
)


def run_demo(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Record the simulated controllers as *options* say; the exit code."""
    devices = tuple(
        DevicePlan(
            name=controller.name,
            port="",
            unit_id=controller.unit_id,
            baudrate=_BAUDRATE,
            steps=_steps(controller, options.duration, options.rate),
        )
        for controller in _CONTROLLERS
    )
    plan = RunPlan(
        devices=devices,
        out=Path(options.out) if options.out is not None else default_folder("demo"),
        rate_hz=options.rate,
        duration=options.duration,
        overwrite=options.overwrite,
        plot=not options.no_plot,
    )
    return carry_out(
        plan,
        interrupts,
        json_summary=options.json,
        ports=partial(_simulated, interrupts=interrupts),
    )


@contextmanager
def _simulated(plan: RunPlan, interrupts: Interrupts) -> Iterator[RunPlan]:
    """*plan* with the ports of a simulator that runs inside the ``with``."""
    buses: dict[int, list[str]] = {}
    for controller in _CONTROLLERS:
        unit = f"{controller.unit_id}:{controller.full_scale:g}"
        buses.setdefault(controller.bus, []).append(unit)
    units = [",".join(buses[bus]) for bus in sorted(buses)]
    with simulated_buses(units, baudrate=_BAUDRATE, interrupts=interrupts) as paths:
        devices = tuple(
            dataclasses.replace(device, port=paths[controller.bus])
            for device, controller in zip(plan.devices, _CONTROLLERS, strict=True)
        )
        yield dataclasses.replace(plan, devices=devices)


def _steps(controller: _Controller, duration: float, rate_hz: float) -> tuple[SetpointStep, ...]:
    """The controller's setpoints, each in the middle between two polls.

    There the bus is idle, so a command and a poll do not queue for it.
    """
    share = duration / len(controller.levels)
    period = 1.0 / rate_hz
    return tuple(
        SetpointStep(
            (round(number * share * rate_hz) + 0.5) * period, level * controller.full_scale
        )
        for number, level in enumerate(controller.levels)
    )
