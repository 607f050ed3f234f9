"""A unit that somebody changes at the panel while the client polls."""

from __future__ import annotations

import pytest

from penstock.alicat import AlicatConfig, AlicatParseError, open_device
from penstock.sim import Bus, MassFlowController, open_memory

pytestmark = pytest.mark.anyio

#: The unit is never asked for, so only the frames can tell.
NEVER_ASKED = AlicatConfig(unit_check_s=0.0)


async def test_reading_never_has_the_label_of_before() -> None:
    unit = MassFlowController(full_scale=500.0, tau=0.0)
    bus = Bus([unit], baudrate=None, turnaround=0.0)
    async with (
        open_memory(bus) as stream,
        await open_device(stream, timeout=20, config=NEVER_ASKED) as device,
    ):
        await device.setpoint(250.0)
        assert (await device.poll()).values["Mass_Flow"] == 250.0
        unit.choose_unit(5, 7)
        for _ in range(2):
            with pytest.raises(AlicatParseError):
                await device.poll()
        reading = await device.poll()
        assert (reading.values["Mass_Flow"], reading.units["Mass_Flow"]) == (0.25, "SLPM")
