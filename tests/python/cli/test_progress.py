"""The choice of the displayed quantity, and the running counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.cli._recording.plan import DevicePlan
from penstock.cli._recording.progress import DeviceProgress, Progress
from penstock.record.shown_quantity import Quantity, choose_quantity


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        (
            {"Abs_Press": "PSIA", "Volu_Flow": "CCM", "Mass_Flow": "SCCM", "Mass_Flow_Setpt": "x"},
            Quantity("Mass_Flow", "Mass_Flow_Setpt", "SCCM"),
        ),
        (
            {"Abs_Press": "PSIA", "Volu_Flow": "CCM", "Volu_Flow_Setpt": "CCM", "Mass_Flow": "x"},
            Quantity("Volu_Flow", "Volu_Flow_Setpt", "CCM"),
        ),
        (
            {"Abs_Press": "PSIA", "Press_Setpt": "PSIA"},
            Quantity("Abs_Press", "Press_Setpt", "PSIA"),
        ),
        ({"Abs_Press": "PSIA", "Mass_Flow": "SCCM"}, Quantity("Mass_Flow", None, "SCCM")),
        ({"Level": None}, Quantity("Level", None, None)),
        ({}, None),
    ],
)
def test_device_shows_its_controlled_quantity_or_else_its_flow(
    fields: dict[str, str | None], chosen: Quantity | None
) -> None:
    assert choose_quantity(fields) == chosen


def test_failed_poll_keeps_the_last_value_until_the_next_answer() -> None:
    device = DeviceProgress(DevicePlan("argon", "/dev/ttyUSB0"))
    device.answered(at=0.0, value=1.5, setpoint=None, status="HLD", latency_s=0.25)
    device.failed(at=0.1, error="no answer")
    assert (device.value, device.error) == (1.5, "no answer")
    device.answered(at=0.2, value=2.5, setpoint=None, status="", latency_s=0.125)
    assert (device.error, device.last_error) == (None, "no answer")
    assert (device.worst_latency_s, device.status) == (0.25, "")


def test_run_counts_are_summed_over_devices(finished: Callable[..., Progress]) -> None:
    progress = finished()
    progress.devices["oxygen"].errors = 1
    progress.devices["argon"].late = 2
    assert (progress.samples, progress.errors, progress.late) == (80, 1, 2)
    assert progress.counts == "80 samples, 2 late, 1 error"
    assert progress.worst_latency_s == 0.004
