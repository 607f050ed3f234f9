"""Stream transports: write limits, pausing and resuming."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run
from .peers import (
    Recorder,
    connect,
    fill,
    receive_all,
    receive_exactly,
)
from .stream_transport_cases import BIG, Make, both_families, both_protocols


def test_the_default_limits_are_asyncios(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert c.transport.get_write_buffer_limits() == (16384, 65536)

    run(main())


@pytest.mark.parametrize(
    ("arguments", "limits"),
    [
        ({"high": 100}, (25, 100)),
        ({"low": 100}, (100, 400)),
        ({"high": 100, "low": 70}, (70, 100)),
        ({"high": 0}, (0, 0)),
        ({}, (16384, 65536)),
        ({"high": 1e6, "low": 1e5}, (100_000, 1_000_000)),
    ],
)
def test_limits_are_set(run: Run, arguments: dict[str, Any], limits: tuple[int, int]) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.set_write_buffer_limits(**arguments)
            assert c.transport.get_write_buffer_limits() == limits

    run(main())


@pytest.mark.parametrize("arguments", [{"high": 10**30}, {"high": float("inf"), "low": 0}])
def test_a_limit_above_all_sizes_never_pauses(run: Run, arguments: dict[str, Any]) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.set_write_buffer_limits(**arguments)
            c.transport.write(b"x" * 10_000_000)
            assert c.transport.get_write_buffer_size() > 65536
            assert "pause" not in c.protocol.calls

    run(main())


def test_a_limit_may_be_a_fraction(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            fill(c.transport, c.protocol)
            size = c.transport.get_write_buffer_size()
            c.protocol.calls.clear()
            c.transport.set_write_buffer_limits(high=size + 0.5)
            c.transport.write(b"x")
            assert c.transport.get_write_buffer_size() == size + 1
            with pytest.raises(ValueError, match=r"must be >= "):
                c.transport.set_write_buffer_limits(high=float("nan"))

    run(main())


def test_invalid_limits_are_refused(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            for high, low in ((10, 20), (10, -1), (-5, None)):
                with pytest.raises(ValueError, match=r"must be >= "):
                    c.transport.set_write_buffer_limits(high=high, low=low)
            assert c.transport.get_write_buffer_limits() == (16384, 65536)

    run(main())


@both_families
def test_the_protocol_is_paused_above_the_high_mark_and_resumed_below_the_low_one(
    run: Run, family: str
) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as c:
            written = fill(c.transport, c.protocol)
            assert c.transport.get_write_buffer_size() > 65536
            assert c.protocol.calls == ["made", "pause"]
            c.transport.write(b"x")
            assert c.protocol.calls == ["made", "pause"]
            assert not c.protocol.resumed.is_set()
            reader = asyncio.create_task(asyncio.to_thread(receive_exactly, c.peer, written + 1))
            await c.protocol.resumed.wait()
            assert c.transport.get_write_buffer_size() <= 16384
            assert len(await reader) == written + 1
            assert c.protocol.calls == ["made", "pause", "resume"]

    run(main())


def test_a_high_mark_of_zero_pauses_with_any_buffered_data(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.set_write_buffer_limits(high=0)
            c.transport.write(b"x")
            assert c.protocol.calls == ["made"]
            written = 1 + fill(c.transport, c.protocol)
            await asyncio.to_thread(receive_exactly, c.peer, written)
            await c.protocol.resumed.wait()
            assert c.transport.get_write_buffer_size() == 0

    run(main())


def test_writing_from_resume_writing_is_allowed(run: Run) -> None:
    class Refill(Recorder):
        refills = 0
        written = 0

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.refills < 5:
                self.refills += 1
                self.paused.clear()
                self.written += fill(self.transport, self)
            else:
                self.transport.write_eof()

    async def main() -> None:
        with await connect(Refill) as c:
            written = fill(c.transport, c.protocol)
            data = await asyncio.to_thread(receive_all, c.peer)
            assert len(data) == written + c.protocol.written
            assert c.protocol.calls == ["made"] + ["pause", "resume"] * 6

    run(main())


@both_protocols
def test_a_paused_transport_reads_nothing(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(make) as c:
            assert c.transport.is_reading()
            c.transport.pause_reading()
            c.transport.pause_reading()
            assert not c.transport.is_reading()
            c.peer.sendall(b"held back")
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.data == b""
            c.transport.resume_reading()
            c.transport.resume_reading()
            assert c.transport.is_reading()
            assert await c.protocol.received(9) == b"held back"

    run(main())


@both_protocols
def test_a_paused_transport_does_not_see_the_end(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(make) as c:
            c.transport.pause_reading()
            c.peer.sendall(b"last words")
            c.peer.close()
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.calls == ["made"]
            c.transport.resume_reading()
            await c.protocol.closed.wait()
            assert c.protocol.data == b"last words"
            assert c.protocol.calls == ["made", "data", "eof", "lost"]

    run(main())


def test_reading_may_be_paused_in_connection_made(run: Run) -> None:
    class Paused(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async def main() -> None:
        with await connect(Paused) as c:
            c.peer.sendall(b"x")
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.data == b""
            c.transport.resume_reading()
            await c.protocol.received(1)

    run(main())


def test_reading_may_be_paused_in_data_received(run: Run, in_thread: Callable[..., Any]) -> None:
    class OneAtATime(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    async def main() -> None:
        with await connect(OneAtATime) as c:
            in_thread(c.peer.sendall, BIG)
            assert await c.protocol.received(len(BIG)) == BIG

    run(main())
