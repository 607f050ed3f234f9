"""An adapter that is pulled out while network clients use it."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest
from anyio.abc import ByteStream

from penstock.serial import SerialConfig, SerialError, open_serial_port
from penstock.sim import (
    Bus,
    BusFaults,
    MassFlowController,
    MemoryStream,
    open_rfc2217,
    open_tcp,
)

pytestmark = pytest.mark.anyio

PLAN = BusFaults(unplug=[(0.5, 0.3)])


class Clock:
    """Stands still until the test moves it, so that nothing depends on the machine's speed."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def bus_on(clock: Clock) -> Bus:
    return Bus([MassFlowController("A")], baudrate=None, turnaround=0.0, faults=PLAN, clock=clock)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, (True, 1.0)), (1.5, (False, 0.5)), (2.5, (True, 2.5)), (6.0, (True, None))],
)
def test_plan_says_when_the_adapter_is_plugged_in(
    seconds: float, expected: tuple[bool, float | None]
) -> None:
    assert BusFaults(unplug=[(1.0, 1.0), (5.0, 1.0)]).plugged_after(seconds) == expected


async def line_from(client: ByteStream) -> bytes:
    answer = b""
    while not answer.endswith(b"\r"):
        answer += await client.receive()
    return answer


async def test_tcp_client_is_hung_up_on_and_can_come_back() -> None:
    clock = Clock()
    bus = bus_on(clock)
    async with open_tcp(bus) as number:
        with anyio.fail_after(20):
            async with await anyio.connect_tcp("127.0.0.1", number) as client:
                await client.send(b"ALSS\r")
                assert await line_from(client) == b"A S\r"
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await client.receive()
            clock.now += 0.6
            async with await anyio.connect_tcp("127.0.0.1", number) as client:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await client.receive()
            clock.now += 0.4
            async with await anyio.connect_tcp("127.0.0.1", number) as client:
                await client.send(b"ALSS\r")
                assert await line_from(client) == b"A S\r"
    assert bus.fault_log.counts == {"unplug": 1}


async def test_rfc2217_server_survives_and_serves_again() -> None:
    clock = Clock()
    bus = bus_on(clock)
    async with open_rfc2217(bus) as number:
        url = f"rfc2217://127.0.0.1:{number}"

        async def answer() -> bytes:
            async with await open_serial_port(url, SerialConfig(baudrate=115200)) as remote:
                await remote.send(b"ALSS\r")
                return await line_from(remote)

        with anyio.fail_after(20):
            async with await open_serial_port(url, SerialConfig(baudrate=115200)) as remote:
                clock.now += 0.6
                with pytest.raises((SerialError, anyio.EndOfStream, anyio.BrokenResourceError)):
                    await remote.receive()
            clock.now += 0.4
            found = b""
            while not found:
                # The server looks for its terminal now and then; until then nobody can connect.
                with suppress(OSError, anyio.EndOfStream, anyio.BrokenResourceError):
                    found = await answer()
    assert found == b"A S\r"
    assert bus.fault_log.counts == {"unplug": 1}


async def test_stream_in_memory_breaks_and_a_new_one_works_after_it() -> None:
    clock = Clock()
    bus = bus_on(clock)
    async with MemoryStream(bus) as stream:
        await stream.send(b"ALSS\r")
        assert await line_from(stream) == b"A S\r"
        await stream.send(b"ALSS\r")
        clock.now += 0.6
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
        with pytest.raises(OSError, match="unplugged"):
            MemoryStream(bus)
        clock.now += 0.4
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"ALSS\r")
    async with MemoryStream(bus) as stream:
        await stream.send(b"ALV\r")
        assert await line_from(stream) == b"A 37\r"
    assert bus.fault_log.counts == {"unplug": 1}


async def test_stream_that_waits_in_memory_notices_the_unplugging() -> None:
    bus = Bus([MassFlowController("A")], faults=BusFaults(unplug=[(0.01, 0.01)]))
    async with MemoryStream(bus) as stream:
        with anyio.fail_after(20), pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
