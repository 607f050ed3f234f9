"""Ports that exchange by themselves: bytes that nobody asked for never answer what only reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from penstock.alicat import AlicatConnectionError, AlicatProtocolClient, ByteStreamTransport
from penstock.alicat._instrument.data_frame import parse_data_frame_format
from penstock.serial import open_serial_port
from tests.python.serial.pty_peer import PtyPeer, until

from .captures import FORMAT_10V20, FRAME_10V20, VERSION_10V20

pytestmark = pytest.mark.anyio

decode = parse_data_frame_format(FORMAT_10V20).decoder("A", FRAME_10V20)


class Instrument:
    """Counts its polls in the mass flow of its frames."""

    def __init__(self, peer: PtyPeer) -> None:
        self.peer = peer
        self.commands: list[bytes] = []
        self.polls = 0
        self._serving = anyio.CancelScope()
        self._ended = anyio.Event()

    def frame(self) -> bytes:
        self.polls += 1
        return b"A +014.62 +021.89 +000.00 +%06.2f +078.95     N2\r" % self.polls

    async def serve(self) -> None:
        command = b""
        with self._serving:
            while True:
                command += await self.peer.read(1)
                if command.endswith(b"\r"):
                    self.commands.append(command)
                    version = command == b"AVE\r"
                    self.peer.write(VERSION_10V20 + b"\r" if version else self.frame())
                    command = b""
        self._ended.set()

    async def unplug(self) -> None:
        self._serving.cancel()
        await self._ended.wait()
        self.peer.unplug()


@asynccontextmanager
async def polled() -> AsyncIterator[tuple[Instrument, AlicatProtocolClient]]:
    with PtyPeer() as peer:
        port = await open_serial_port(peer.path)
        client = AlicatProtocolClient(ByteStreamTransport(port), default_timeout=60.0)
        client.register_proof("A", b"AVE\r", VERSION_10V20)
        async with client, anyio.create_task_group() as tasks:
            instrument = Instrument(peer)
            tasks.start_soon(instrument.serve)
            yield instrument, client
            tasks.cancel_scope.cancel()


async def poll(client: AlicatProtocolClient, kind: str) -> object:
    exchange = await client.exchange(b"A\r", decode, poll=kind == "poll", reads=kind == "reads")
    assert exchange.requested_monotonic_ns <= exchange.received_monotonic_ns
    return exchange.value.values["Mass_Flow"]


kinds = pytest.mark.parametrize("kind", ["poll", "reads"])


@kinds
async def test_frame_that_waits_before_a_poll_is_not_its_answer(kind: str) -> None:
    async with polled() as (instrument, client):
        assert await poll(client, kind) == 1.0
        instrument.peer.write(instrument.frame())
        await until(client.transport.input_waiting)
        assert await poll(client, kind) == 3.0
        # Nothing was sent before the unit had proven that nothing older follows.
        assert instrument.commands == [b"A\r", b"AVE\r", b"A\r"]
        assert (client.statistics.resyncs, client.statistics.discarded_lines) == (1, 1)
        assert not client.in_debt("A")
        assert await poll(client, kind) == 4.0
        assert instrument.commands[3:] == [b"A\r"]


@kinds
async def test_part_of_a_line_that_waits_before_a_poll_is_not_its_beginning(kind: str) -> None:
    async with polled() as (instrument, client):
        assert await poll(client, kind) == 1.0
        instrument.peer.write(b"A +0")
        await until(client.transport.input_waiting)
        assert await poll(client, kind) == 2.0
        assert instrument.commands == [b"A\r", b"AVE\r", b"A\r"]
        assert not client.in_debt("A")


@kinds
async def test_poll_of_a_lost_line_is_a_connection_error(kind: str) -> None:
    async with polled() as (instrument, client):
        assert await poll(client, kind) == 1.0
        await instrument.unplug()
        for _ in range(2):
            with pytest.raises(AlicatConnectionError, match="is lost"):
                await poll(client, kind)


async def test_question_that_only_reads_may_be_sent_by_a_cancelled_task() -> None:
    async with polled() as (instrument, client):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await poll(client, "reads")
        assert scope.cancelled_caught
        # Whether it was sent or not: a late answer to it is not the next one's.
        assert await poll(client, "reads") == instrument.polls
        assert not client.in_debt("A")
