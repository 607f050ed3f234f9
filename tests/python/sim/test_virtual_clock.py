"""The loop whose time passes only while nothing else happens."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from penstock.sim import Bus, MassFlowController, VirtualClockLoop, open_memory


def test_hours_pass_while_nothing_happens() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with anyio.move_on_after(7200.0):
            await anyio.sleep_forever()
        return loop.time() - begin

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        assert runner.run(main()) == pytest.approx(7200.0)


def test_slow_line_takes_its_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        bus = Bus([MassFlowController()], baudrate=2400, turnaround=0.0, clock=loop.time)
        async with open_memory(bus) as stream:
            begin = loop.time()
            await stream.send(b"A\r")
            reply = b""
            while not reply.endswith(b"\r"):
                reply += await stream.receive()
            return loop.time() - begin

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        assert runner.run(main()) == pytest.approx((2 + 49) * 10 / 2400)


def test_wait_for_nothing_is_an_error_and_no_hang() -> None:
    loop = VirtualClockLoop()
    try:
        with pytest.raises(RuntimeError, match="never happens"):
            loop.run_until_complete(asyncio.Event().wait())
    finally:
        loop.close()
