"""A finished run as plain data, for everything that shows one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from penstock.cli.plan import DevicePlan
from penstock.cli.progress import DeviceProgress, Progress, choose_quantity

_FIELDS = {"Abs_Press": "PSIA", "Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM", "Gas": None}


def _finished(names: tuple[str, ...] = ("argon", "oxygen"), samples: int = 40) -> Progress:
    devices = {}
    for number, name in enumerate(names):
        device = DeviceProgress(DevicePlan(name, f"/dev/ttyUSB{number}", "ABCDEFG"[number]))
        device.quantity = choose_quantity(_FIELDS)
        for n in range(samples):
            value = 100 * (1 - math.exp(-n / 10))
            device.answered(at=n / 20, value=value, setpoint=100.0, status="", latency_s=0.004)
        device.samples = samples
        devices[name] = device
    return Progress(devices, rate_hz=20.0, duration=2.0, elapsed=samples / 20)


@pytest.fixture
def finished() -> Callable[..., Progress]:
    return _finished
