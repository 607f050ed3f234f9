"""Times that no wait can have are refused where they are stated, before a port is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.alicat import (
    AlicatConfigurationError,
    AlicatManager,
    AlicatProtocolClient,
    ByteStreamTransport,
    Commands,
    InvalidUnitIdError,
    find_devices,
    open_device,
    probe,
)
from penstock.alicat import sync as blocking
from penstock.alicat.commands import SetpointRequest
from penstock.alicat.modbus import find_modbus_devices, open_modbus_device

from .opened import opened
from .scripted_bus import ScriptedBus, controller

pytestmark = pytest.mark.anyio

NOWHERE = "/dev/penstock-no-such-port"


async def _add(timeout: Any) -> None:
    async with AlicatManager() as manager:
        await manager.add("a", NOWHERE, timeout=timeout)


async def _open_blocking(timeout: Any) -> None:
    blocking.open_device(NOWHERE, timeout=timeout)


async def _client(timeout: Any) -> None:
    AlicatProtocolClient(ByteStreamTransport(ScriptedBus()), default_timeout=timeout)


async def _idle(timeout: Any) -> None:
    AlicatProtocolClient(ByteStreamTransport(ScriptedBus()), idle_timeout=timeout or 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda timeout: open_device(NOWHERE, timeout=timeout),
        lambda timeout: open_modbus_device(NOWHERE, timeout=timeout),
        lambda timeout: probe(NOWHERE, timeout=timeout),
        lambda timeout: find_devices([NOWHERE], timeout=timeout),
        lambda timeout: find_modbus_devices([NOWHERE], timeout=timeout),
        _add,
        _open_blocking,
        _client,
        _idle,
    ],
)
@pytest.mark.parametrize("timeout", [-1, 0, float("nan"), float("inf"), "1", None, True])
async def test_time_that_no_wait_can_have_is_refused(
    call: Callable[[Any], Awaitable[object]], timeout: Any
) -> None:
    with pytest.raises(AlicatConfigurationError, match="seconds above 0"):
        await call(timeout)


async def test_time_of_one_command_is_checked_before_it_is_sent() -> None:
    device, bus, _ = await opened(controller())
    with pytest.raises(AlicatConfigurationError, match="seconds above 0"):
        await device.session.execute(Commands.SETPOINT, SetpointRequest(), timeout=-1)
    assert bus.commands == []


@pytest.mark.parametrize("unit_id", [None, 1, "", "AB", "ß", "1"])
async def test_unit_id_that_is_no_letter_is_refused(unit_id: Any) -> None:
    device, bus, _ = await opened(controller())
    with pytest.raises(InvalidUnitIdError):
        await device.change_unit_id(unit_id, confirm=True)
    assert bus.commands == []
