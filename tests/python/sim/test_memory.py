"""The bus as a byte stream in memory and behind a TCP port."""

from __future__ import annotations

import anyio
import pytest

from penstock.sim import Bus, BusFaults, MassFlowController, open_memory, open_tcp

FRAME = b" +014.62 +021.89 +000.00 +000.00 +000.00     N2\r"


def bus_of(*ids: str, faults: BusFaults | None = None) -> Bus:
    return Bus([MassFlowController(i) for i in ids], baudrate=115200, faults=faults)


async def receive_until(stream: anyio.abc.ByteReceiveStream, end: bytes) -> bytes:
    data = b""
    with anyio.fail_after(20):
        while not data.endswith(end):
            data += await stream.receive()
    return data


@pytest.mark.anyio
async def test_requests_are_answered_in_memory() -> None:
    async with open_memory(bus_of("A", "B")) as stream:
        await stream.send(b"A\r")
        assert await receive_until(stream, b"\r") == b"A" + FRAME
        await stream.send(b"B\r")
        assert await receive_until(stream, b"\r") == b"B" + FRAME


@pytest.mark.anyio
async def test_a_waiting_receive_is_woken_by_a_request_of_another_task() -> None:
    async with open_memory(bus_of("A")) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, b"A\r")
        assert await receive_until(stream, b"\r") == b"A" + FRAME


@pytest.mark.anyio
async def test_a_cancelled_receive_loses_nothing() -> None:
    async with open_memory(bus_of("A", faults=BusFaults(late={1: 0.5}))) as stream:
        await stream.send(b"A\r")
        with anyio.move_on_after(0.001) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        assert await receive_until(stream, b"\r") == b"A" + FRAME


@pytest.mark.anyio
async def test_receive_gives_no_more_than_it_was_asked_for() -> None:
    async with open_memory(bus_of("A")) as stream:
        await stream.send(b"A\r")
        data = b""
        while len(data) < len(FRAME) + 1:
            piece = await stream.receive(5)
            assert 1 <= len(piece) <= 5
            data += piece
        assert data == b"A" + FRAME
        with pytest.raises(ValueError, match="max_bytes 0"):
            await stream.receive(0)


@pytest.mark.anyio
async def test_only_one_task_may_receive() -> None:
    async with open_memory(bus_of("A")) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(stream.receive)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await stream.receive()
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_closed_stream_refuses_both_directions() -> None:
    async with open_memory(bus_of("A")) as stream:
        pass
    with pytest.raises(anyio.ClosedResourceError):
        await stream.send(b"A\r")
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive()


@pytest.mark.anyio
async def test_a_device_server_relays_the_line_to_one_client_after_another() -> None:
    async with open_tcp(bus_of("A")) as port:
        for _ in range(2):
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                await client.send(b"A\r")
                assert await receive_until(client, b"\r") == b"A" + FRAME


@pytest.mark.anyio
async def test_a_second_client_is_hung_up_on_while_the_line_is_taken() -> None:
    async with (
        open_tcp(bus_of("A")) as port,
        await anyio.connect_tcp("127.0.0.1", port) as first,
    ):
        await first.send(b"A\r")
        await receive_until(first, b"\r")
        async with await anyio.connect_tcp("127.0.0.1", port) as second:
            with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
                await second.receive()
        await first.send(b"AVE\r")
        await receive_until(first, b"15:04:07\r")
