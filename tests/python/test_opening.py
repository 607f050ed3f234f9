"""What opens a port or an instrument is awaited, or entered with ``async with``."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock.alicat import open_controller, open_device
from penstock.alicat.modbus import open_modbus_controller, open_modbus_device
from penstock.serial import open_serial_port
from tests.python.alicat.scripted_bus import ScriptedBus, controller

FUNCTIONS = [
    open_serial_port,
    open_device,
    open_controller,
    open_modbus_device,
    open_modbus_controller,
]


@pytest.mark.anyio
async def test_a_port_that_is_entered_is_closed_at_the_end() -> None:
    async with open_serial_port("loop://") as port:
        await port.send(b"x")
        assert await port.receive() == b"x"
    assert not port.is_open


@pytest.mark.anyio
async def test_a_port_is_closed_when_the_block_fails() -> None:
    with pytest.raises(KeyError):
        async with open_serial_port("loop://") as port:
            raise KeyError
    assert not port.is_open


@pytest.mark.anyio
async def test_a_port_that_is_awaited_is_entered_later() -> None:
    port = await open_serial_port("loop://")
    async with port as same:
        assert same is port
    async with await open_serial_port("loop://") as port:
        assert port.is_open


@pytest.mark.anyio
@pytest.mark.parametrize("function", [open_device, open_controller])
async def test_an_instrument_that_is_entered_is_closed_at_the_end(
    function: Callable[..., Any],
) -> None:
    bus = ScriptedBus(controller())
    async with function(bus, timeout=5.0) as device:
        assert (await device.poll()).unit_id == "A"
    with pytest.raises(Exception, match="is closed"):
        await device.poll()


@pytest.mark.anyio
async def test_an_opening_that_fails_raises_where_it_is_entered() -> None:
    with pytest.raises(Exception, match="does not exist"):
        async with open_serial_port("/dev/ttyNOWHERE"):
            raise AssertionError


@pytest.mark.anyio
async def test_tasks_can_open() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_serial_port, "/dev/ttyNOWHERE")
    assert "does not exist" in str(caught.value.exceptions[0])


def test_a_task_of_asyncio_can_be_made_of_it() -> None:
    async def main() -> None:
        port = await asyncio.create_task(open_serial_port("loop://"))
        assert port.is_open
        await port.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_never_awaited_warns(function: Callable[..., Any]) -> None:
    with pytest.warns(RuntimeWarning, match=f"'{function.__name__}' was never awaited"):
        function("/dev/ttyNOWHERE")
        gc.collect()
