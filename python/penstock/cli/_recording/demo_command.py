"""``penstock demo``: four simulated mass-flow controllers, recorded like real ones."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.cli._dashboard.plan import dash_plan
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.plan import DevicePlan, RunPlan, SetpointStep
from penstock.cli._recording.plan_run import run_plan
from penstock.cli._recording.run_folder import default_folder
from penstock.cli._recording.simulator import simulated_buses

_BAUDRATE = 115200
"""Two controllers on one bus at 20 Hz need this rate: at 19200 baud one answer takes 25 ms."""

_TIMEOUT_S = 10.0
"""The simulator is a process of this machine: on a busy one it answers late, and a limit for a line
would count that as a failed poll."""

_SECONDS = 10.0
_SECONDS_TO_WATCH = 600.0
"""The length of a demo whose dashboard somebody opens in a browser."""
_LONGEST_STEP_S = 20.0


@dataclass(frozen=True, slots=True)
class _Controller:
    name: str
    unit_id: str
    bus: int
    full_scale: float
    levels: tuple[float, ...]
    """Setpoints as fractions of the full scale, spread evenly over the run.

    They are repeated in a long one.
    """


_CONTROLLERS = (
    _Controller("argon", "A", 0, 500.0, (0.4, 0.8, 0.2)),
    _Controller("nitrogen", "B", 0, 100.0, (0.75, 0.25, 0.5)),
    _Controller("oxygen", "C", 1, 5000.0, (0.2, 0.5, 0.9)),
    _Controller("helium", "D", 2, 10000.0, (0.6, 0.1, 0.7)),
)


def run_demo(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Record the simulated controllers as ``options`` specify; return the exit code."""
    dash = dash_plan(options)
    duration = options.duration
    if duration is None:
        duration = _SECONDS if dash is None else _SECONDS_TO_WATCH
    devices = tuple(
        DevicePlan(
            name=controller.name,
            port="",
            unit_id=controller.unit_id,
            baudrate=_BAUDRATE,
            timeout=_TIMEOUT_S,
            required=True,
            steps=_steps(controller, duration, options.rate),
        )
        for controller in _CONTROLLERS
    )
    plan = RunPlan(
        devices=devices,
        out=Path(options.out) if options.out is not None else default_folder("demo"),
        rate_hz=options.rate,
        duration=duration,
        overwrite=options.overwrite,
        plot=not options.no_plot,
        dash=dash,
    )
    return run_plan(
        plan,
        interrupts,
        json_summary=options.json,
        ports=partial(_simulated, interrupts=interrupts),
    )


@contextmanager
def _simulated(plan: RunPlan, interrupts: Interrupts) -> Iterator[RunPlan]:
    """Yield ``plan`` with the ports of a simulator that runs inside the ``with``."""
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
    """Return the controller's setpoints, each due midway between two polls.

    At that time the bus is idle, so a command does not queue behind a poll.
    """
    rounds = max(1, math.ceil(duration / (len(controller.levels) * _LONGEST_STEP_S)))
    levels = controller.levels * rounds
    share = duration / len(levels)
    period = 1.0 / rate_hz
    return tuple(
        SetpointStep(
            (round(number * share * rate_hz) + 0.5) * period, level * controller.full_scale
        )
        for number, level in enumerate(levels)
    )
