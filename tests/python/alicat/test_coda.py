"""CODA instruments: which class they are, and density where their frames have it."""

from __future__ import annotations

import pytest

from penstock.alicat import CodaController, CodaMeter, Medium, Unit, open_device
from penstock.alicat._instrument.kinds import is_coriolis_model
from penstock.sim import Bus, CoriolisController, CoriolisMeter, open_memory

from .captures import table
from .scripted_bus import ScriptedBus, meter

pytestmark = pytest.mark.anyio

# No frame of one was captured: a table in the form of other instruments, with a density in it.
FORMAT = table("""
A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
A D01 700 Unit ID                    string          1
A D02 003 Flow Temp                  s decimal     7/2 002 02 `C
A D03 900 Fluid Density              s decimal     8/2 001 02 kg/m3
A D04 005 Mass Flow                  s decimal     7/2 068 02 g/h
A D05 702 *Status                    string          3 LCK
""")


@pytest.mark.parametrize("model", ["K-5KG-D", "KM-20KG", "KC-5KG-D", "KF-1KG", "kg-2kg"])
def test_coriolis_models_are_known_by_their_letters(model: str) -> None:
    assert is_coriolis_model(model)


@pytest.mark.parametrize("model", [None, "", "MC-500SCCM-D", "LC-1LPM", "KX-1"])
def test_other_models_are_none_of_them(model: str | None) -> None:
    assert not is_coriolis_model(model)


async def test_coriolis_instruments_open_as_such() -> None:
    bus = Bus([CoriolisController("A"), CoriolisMeter("B")], baudrate=None)
    async with open_memory(bus) as wire:
        controller = await open_device(wire, timeout=20)
        assert isinstance(controller, CodaController)
        meter = await open_device(controller.client, unit_id="B", timeout=20)
        assert isinstance(meter, CodaMeter)
        assert not isinstance(meter, CodaController)
        assert controller.info.media == Medium.GAS | Medium.LIQUID
        await controller.setpoint(10.0)
        reading = await controller.poll()
        assert reading.units["Mass_Flow"] == "g/m"
        assert controller.density(reading) is None
        assert controller.density_field is None


async def test_density_is_the_column_of_that_name() -> None:
    unit = meter()
    unit.replies[b"??M*"] = [
        row.replace(b"MW-10SLPM-D", b"KM-5KG-D")
        for row in unit.replies[b"??M*"]  # type: ignore[union-attr]
    ]
    unit.replies[b"??D*"] = FORMAT
    unit.replies[b""] = b"A +022.97 +0997.52 +120.50"
    async with await open_device(ScriptedBus(unit)) as device:
        assert isinstance(device, CodaMeter)
        assert device.density_field is not None
        assert device.density_field.unit_label == "kg/m3"
        reading = await device.poll()
        assert device.density(reading) == 997.52
        assert reading.units["Mass_Flow"] == Unit.G_H.value
