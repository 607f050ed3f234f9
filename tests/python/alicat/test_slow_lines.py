"""Lines at every baud rate that instruments have, on a virtual clock, at the pace of their bytes.

A row of a table takes longer on a slow line than the silence that ends a table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.alicat import (
    AlicatProtocolClient,
    AlicatTimeoutError,
    BusStatistics,
    ByteStreamTransport,
    Device,
    open_device,
)
from penstock.alicat.commands.system import BAUD_RATES
from penstock.sim import (
    FIRMWARE_5V12,
    FIRMWARE_8V17,
    FIRMWARE_10V20,
    Bus,
    Firmware,
    MassFlowController,
    MemoryStream,
    VirtualClockLoop,
)
from tests.python.sim.poll_run import virtual_client_clock

Program = Callable[[VirtualClockLoop], Awaitable[None]]
#: Beside the bytes: what instrument, adapter and the ends of tables take, over a whole opening.
_BESIDE_S = 1.0
_BITS_A_BYTE = 10


def run(program: Program) -> None:
    loop = VirtualClockLoop()
    with (
        virtual_client_clock(loop),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(program(loop))  # type: ignore[arg-type]


class CountingStream(MemoryStream):
    """Counts the bytes of both directions."""

    bytes = 0

    async def send(self, item: bytes) -> None:
        self.bytes += len(item)
        await super().send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await super().receive(max_bytes)
        self.bytes += len(data)
        return data


def is_undisturbed(statistics: BusStatistics) -> bool:
    return (
        statistics.timeouts
        == statistics.malformed
        == statistics.resyncs
        == statistics.discarded_lines
        == 0
    )


@pytest.mark.parametrize(
    "firmware", [FIRMWARE_10V20, FIRMWARE_8V17, FIRMWARE_5V12], ids=lambda firmware: firmware.name
)
@pytest.mark.parametrize("baudrate", sorted(BAUD_RATES))
def test_instrument_is_opened_and_read_in_the_time_of_its_bytes(
    baudrate: int, firmware: Firmware
) -> None:
    async def program(loop: VirtualClockLoop) -> None:
        unit = MassFlowController("A", firmware=firmware, clock=loop.time)
        stream = CountingStream(Bus([unit], baudrate=baudrate, clock=loop.time))
        client = AlicatProtocolClient(ByteStreamTransport(stream, baudrate=baudrate))
        async with await open_device(client) as device:
            await device.poll()
            await device.refresh_data_frame_format()
            if firmware is FIRMWARE_10V20:
                assert len(await device.gas_list()) > 50
            assert is_undisturbed(client.statistics), client.statistics
            assert loop.time() < stream.bytes * _BITS_A_BYTE / baudrate + _BESIDE_S

    run(program)


@pytest.mark.parametrize("chunk_time", [0.008, 0.05])
@pytest.mark.parametrize("baudrate", [2400, 9600, 19200])
def test_slow_line_behind_a_serial_server_is_opened_without_a_false_end(
    baudrate: int, chunk_time: float
) -> None:
    async def program(loop: VirtualClockLoop) -> None:
        unit = MassFlowController("A", clock=loop.time)
        bus = Bus([unit], baudrate=baudrate, chunk_time=chunk_time, clock=loop.time)
        client = AlicatProtocolClient(ByteStreamTransport(MemoryStream(bus), label="10.0.0.5:4001"))
        async with await open_device(client) as device:
            assert len(await device.gas_list()) > 50
            await device.poll()
            assert is_undisturbed(client.statistics), client.statistics

    run(program)


class Rates:
    """A line whose host and instrument change their rates on their own."""

    def __init__(self, loop: VirtualClockLoop, baudrate: int) -> None:
        self.bus = Bus(
            [MassFlowController("A", clock=loop.time)], baudrate=baudrate, clock=loop.time
        )
        self.nobody = Bus(
            [MassFlowController("Z", clock=loop.time)], baudrate=baudrate, clock=loop.time
        )

    async def open_at(self, baudrate: int) -> ByteStreamTransport:
        heard = self.bus if baudrate == self.bus.baudrate else self.nobody
        return ByteStreamTransport(MemoryStream(heard), label="wire", baudrate=baudrate)

    async def device(self) -> Device:
        assert self.bus.baudrate is not None
        transport = await self.open_at(self.bus.baudrate)
        return await open_device(AlicatProtocolClient(transport, reopen_at=self.open_at))


@pytest.mark.parametrize("before", [2400, 19200, 115200])
@pytest.mark.parametrize("after", sorted(BAUD_RATES))
def test_baud_rate_is_changed_between_all_rates(before: int, after: int) -> None:
    async def program(loop: VirtualClockLoop) -> None:
        line = Rates(loop, before)
        device = await line.device()
        await device.change_baud_rate(after, confirm=True)
        assert device.client.transport.baudrate == after
        assert (await device.poll()).unit_id == "A"
        assert is_undisturbed(device.client.statistics), device.client.statistics

    run(program)


@pytest.mark.parametrize("baudrate", sorted(BAUD_RATES))
def test_rest_of_a_cancelled_table_is_waited_for_at_every_rate(baudrate: int) -> None:
    async def program(loop: VirtualClockLoop) -> None:
        unit = MassFlowController("A", clock=loop.time)
        stream = MemoryStream(Bus([unit], baudrate=baudrate, clock=loop.time))
        client = AlicatProtocolClient(ByteStreamTransport(stream, baudrate=baudrate))
        device = await open_device(client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(400 / baudrate):
                await device.gas_list()
        assert (await device.poll()).unit_id == "A"
        statistics = client.statistics
        assert (statistics.timeouts, statistics.resyncs) == (0, 1)
        assert 50 < statistics.discarded_lines < 200

    run(program)


def test_unit_that_never_ends_its_table_is_not_waited_for_for_ever() -> None:
    async def program(loop: VirtualClockLoop) -> None:
        class Endless(MemoryStream):
            async def receive(self, max_bytes: int = 65536) -> bytes:
                await asyncio.sleep(0.01)
                return b"A M00 row\r"

        unit = MassFlowController("A", clock=loop.time)
        client = AlicatProtocolClient(
            ByteStreamTransport(Endless(Bus([unit], clock=loop.time)), baudrate=19200)
        )
        rows = await client.query_lines(
            b"A??M*\r", lambda line: b" M" in line, lambda line: False, wanted="a row"
        )
        assert len(rows) > 256
        assert loop.time() < 60

    run(program)


def test_time_of_a_silent_unit_is_its_timeout_and_that_of_the_bytes() -> None:
    async def program(loop: VirtualClockLoop) -> None:
        unit = MassFlowController("B", clock=loop.time)
        bus = Bus([unit], baudrate=2400, clock=loop.time)
        client = AlicatProtocolClient(ByteStreamTransport(MemoryStream(bus), baudrate=2400))
        with pytest.raises(AlicatTimeoutError):
            await client.exchange(b"A\r", bytes, timeout=0.2)
        assert 0.2 + 82 * _BITS_A_BYTE / 2400 <= loop.time() < 0.6

    run(program)
