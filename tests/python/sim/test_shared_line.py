"""One bus with several ports: every port hears all answers."""

from __future__ import annotations

import os
import socket

import anyio
import pytest

from penstock.serial import SerialConfig, open_serial_port
from penstock.sim import (
    Bus,
    MassFlowController,
    MemoryStream,
    SharedLine,
    open_pty,
    open_rfc2217,
    open_tcp,
)

pytestmark = pytest.mark.anyio


def a_bus() -> Bus:
    return Bus([MassFlowController("A"), MassFlowController("B")], baudrate=None, turnaround=0.0)


async def line_from(stream: MemoryStream) -> bytes:
    with anyio.fail_after(20):
        data = b""
        while not data.endswith(b"\r"):
            data += await stream.receive()
        return data


async def test_answer_reaches_every_port() -> None:
    line = SharedLine(a_bus())
    async with MemoryStream(line.tap()) as one, MemoryStream(line.tap()) as other:
        await one.send(b"BLSS\r")
        assert await line_from(other) == b"B S\r"
        assert await line_from(one) == b"B S\r"


async def test_port_that_waits_is_woken_by_the_answer_to_another() -> None:
    line = SharedLine(a_bus())
    async with (
        MemoryStream(line.tap()) as one,
        MemoryStream(line.tap()) as other,
        anyio.create_task_group() as tasks,
    ):
        answers: list[bytes] = []

        async def listen() -> None:
            answers.append(await line_from(other))

        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        await one.send(b"A\r")
        await line_from(one)
    assert answers[0].startswith(b"A +014.62")


async def test_closed_port_leaves_the_line_to_the_others() -> None:
    line = SharedLine(a_bus())
    async with MemoryStream(line.tap()) as one:
        await MemoryStream(line.tap()).aclose()
        await one.send(b"ALSS\r")
        assert await line_from(one) == b"A S\r"


async def test_port_that_nobody_reads_keeps_a_bounded_backlog() -> None:
    line = SharedLine(a_bus())
    idle = line.tap()
    async with MemoryStream(line.tap()) as one:
        for _ in range(2000):
            await one.send(b"A\r")
            await line_from(one)
    assert len(idle.take_due()) <= 64 * 1024


async def test_terminal_hears_what_a_tcp_client_asks() -> None:
    line = SharedLine(a_bus())
    async with open_pty(line.tap()) as path, open_tcp(line) as number:
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            with socket.create_connection(("127.0.0.1", number), timeout=20) as client:
                client.sendall(b"ALSS\r")
                answer = b""
                with anyio.fail_after(20):
                    while not answer.endswith(b"\r"):
                        await anyio.wait_readable(descriptor)
                        answer += os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    assert answer == b"A S\r"


async def test_rfc2217_client_sets_the_rate_that_the_units_hear() -> None:
    bus = Bus([MassFlowController("A")], baudrate=38400)
    async with open_rfc2217(bus, match_baudrate=True) as number:
        for rate, heard in ((9600, False), (38400, True)):
            config = SerialConfig(baudrate=rate)
            url = f"rfc2217://127.0.0.1:{number}"
            async with await open_serial_port(url, config) as remote:
                await remote.send(b"ALSS\r")
                if not heard:
                    # The request has gone through once the server has answered a later question.
                    await remote.drain()
                    continue
                with anyio.fail_after(20):
                    answer = b""
                    while not answer.endswith(b"\r"):
                        answer += await remote.receive()
        assert bus.replies == 1
    assert answer == b"A S\r"
