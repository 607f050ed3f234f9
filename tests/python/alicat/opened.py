"""A device on a scripted bus, opened, and the events that it reports."""

from __future__ import annotations

from penstock.alicat import (
    AlicatConfig,
    Device,
    DeviceEvent,
    FlowController,
    open_device,
)

from .scripted_bus import ScriptedBus
from .scripted_bus import Unit as Wired

TIMEOUT = 0.3


async def opened(
    *units: Wired, config: AlicatConfig | None = None
) -> tuple[FlowController, ScriptedBus, list[DeviceEvent]]:
    bus = ScriptedBus(*units)
    device = await open_device(bus, timeout=TIMEOUT, config=config)
    assert isinstance(device, FlowController)
    bus.commands.clear()
    return device, bus, events_of(device)


def events_of(device: Device) -> list[DeviceEvent]:
    events: list[DeviceEvent] = []
    device.subscribe(events.append)
    return events
