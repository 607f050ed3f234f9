"""A second pressure sensor is asked for by its statistic, and a controller can follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.alicat import Capability, CapabilityEvidence, Statistic, open_device
from penstock.sim import Bus, MassFlowController, MassFlowMeter, PressureController, open_memory
from penstock.sim._fleet import read_fleet


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_measures_the_line_of_the_first_one_until_it_has_its_own() -> None:
    unit = MassFlowMeter("A", pressure=30.0, second_sensor="A")
    assert unit.answer("FPF 344") == ["A +160.00 10 PSIA"]
    assert unit.answer("DV 10 2 344") == ["+030.00 +030.00"]
    unit.instrument.second_pressure = 12.5
    assert unit.answer("DV 10 2 344") == ["+030.00 +012.50"]
    assert unit.answer("DCU 344 7") == ["A 7 barA"]
    assert unit.answer("DV 10 344") == ["+000.86"]
    assert len(unit.answer("")[0].split()) == 6


@pytest.mark.parametrize(
    ("reference", "statistic", "shown"), [("G", 352, "+025.30"), ("D", 360, "+000.00")]
)
def test_its_reference_is_its_own(reference: str, statistic: int, shown: str) -> None:
    unit = PressureController("A", tau=0.0, second_sensor=reference, clock=Clock())
    unit.answer("LS 40")
    assert unit.answer(f"DV 1 {statistic}") == [shown]
    assert unit.answer("FPF 344") == ["A +0 1 ---"]


def test_unit_without_one_says_so() -> None:
    unit = MassFlowController("A")
    assert unit.answer("FPF 344") == ["A +0 1 ---"]
    assert unit.answer("DV 10 344") == ["--"]
    assert unit.answer("LV 345") == ["?"]
    with pytest.raises(ValueError, match="is not A, G or D"):
        MassFlowController("A", second_sensor="X")


@pytest.mark.parametrize(
    "unit",
    [
        MassFlowController("A", tau=0.0, second_sensor="A", clock=Clock()),
        PressureController("A", tau=0.0, second_sensor="A", clock=Clock()),
    ],
    ids=["flow", "pressure"],
)
def test_controller_follows_it_where_it_measures_as_the_first_one(
    unit: MassFlowController | PressureController,
) -> None:
    assert unit.answer("LV 345") == ["A 345"]
    unit.answer("LS 40")
    assert unit.answer("DV 1 2 344") == ["+040.00 +040.00"]
    assert unit.answer("LV 34") == ["A 34"]
    other = PressureController("A", second_sensor="G")
    assert other.answer("LV 353") == ["?"]


@pytest.mark.anyio
@pytest.mark.parametrize("reference", ["A", "G", "D"])
async def test_client_finds_it(reference: str) -> None:
    unit = MassFlowController("A", second_sensor=reference, pressure=30.0)
    statistic = {
        "A": Statistic.ABS_PRESS_SECOND,
        "G": Statistic.GAUGE_PRESS_SECOND,
        "D": Statistic.DIFF_PRESS_SECOND,
    }[reference]
    async with (
        open_memory(Bus([unit], baudrate=None)) as stream,
        await open_device(stream, timeout=20) as device,
    ):
        report = await device.probe_capabilities()
        assert report[Capability.SECONDARY_PRESSURE] is CapabilityEvidence.PRESENT
        measured = await device.request([statistic])
        assert list(measured.values.values()) == [{"A": 30.0, "G": 15.3, "D": 0.0}[reference]]


def test_fleet_can_have_one(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        '[[bus]]\n[[bus.unit]]\nid = "A"\nfull_scale = 500\nsecond_sensor = "G"\n', encoding="utf-8"
    )
    ((unit,),) = (bus.bus.units for bus in read_fleet(path))
    assert unit.instrument.second_sensor == "G"
