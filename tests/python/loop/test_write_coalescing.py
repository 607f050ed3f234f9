"""Writes of one callback: which are sent at once, which together, and that all are sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Run
from .write_bursts import CORK_THRESHOLD, WriteBursts, only_penstock, write_each

HELD_AT_MOST = 65536


class Packets(WriteBursts):
    """A transport on one end of a socket pair whose other end distinguishes each send."""

    def __init__(self, loop: Any, kind: int) -> None:
        self.loop = loop
        ours, self.peer = socket.socketpair(socket.AF_UNIX, kind)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.paused: list[bool] = []
        self.failure: Exception | None = None
        made = loop.create_future()
        packets = self

        class Protocol(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                packets.receiving()
                packets.transport.write(data)
                packets.transport.write(b"!")
                packets.transport.write(b"?")
                if packets.failure is not None:
                    raise packets.failure

            def pause_writing(self) -> None:
                packets.paused.append(True)

            def resume_writing(self) -> None:
                packets.paused.append(False)

        self.transport = loop._make_socket_transport(ours, Protocol(), made)
        loop.run_until_complete(made)

    def arrived(self) -> list[bytes]:
        """Return the data of each send, and b"" for the end."""
        packets = []
        try:
            while True:
                packets.append(self.peer.recv(1 << 20))
                if not packets[-1]:
                    return packets
        except BlockingIOError:
            return packets


@pytest.fixture
def kind() -> int:
    return socket.SOCK_SEQPACKET


@pytest.fixture
def packets(loop: asyncio.AbstractEventLoop, kind: int) -> Iterator[Packets]:
    packets = Packets(loop, kind)
    yield packets
    packets.transport.abort()
    packets.peer.close()
    loop.run_until_complete(asyncio.sleep(0))


def test_a_lone_write_is_sent_before_it_returns(packets: Packets) -> None:
    seen = []

    def write(transport: Any) -> None:
        transport.write(b"lone")
        seen.extend(packets.arrived())

    for _ in range(3):
        packets.in_one_callback(write)
    assert seen == [b"lone"] * 3


def test_each_write_of_a_first_burst_is_sent_before_it_returns(
    packets: Packets,
) -> None:
    seen = []

    def write(transport: Any) -> None:
        write_each(b"a", b"b")(transport)
        seen.extend(packets.arrived())

    packets.in_one_callback(write)
    assert seen == [b"a", b"b"]


@only_penstock
def test_a_transport_that_writes_in_bursts_sends_each_burst_together(packets: Packets) -> None:
    burst = write_each(b"header", b"body")
    for _ in range(CORK_THRESHOLD):
        assert packets.in_one_callback(burst) == [b"header", b"body"]
    for _ in range(3):
        assert packets.in_one_callback(burst) == [b"headerbody"]


@only_penstock
def test_a_lone_write_ends_the_coalescing(packets: Packets) -> None:
    packets.write_in_bursts()
    assert packets.in_one_callback(write_each(b"lone")) == [b"lone"]
    assert packets.in_one_callback(write_each(b"header", b"body")) == [b"header", b"body"]


@only_penstock
def test_calls_of_writelines_are_also_coalesced(packets: Packets) -> None:
    def write(transport: Any) -> None:
        transport.writelines([b"a", b"b"])
        transport.writelines([b"c", b"d"])
        transport.write(b"e")

    packets.write_in_bursts()
    assert packets.in_one_callback(write) == [b"abcde"]


@only_penstock
def test_writes_of_data_received_are_sent_together(packets: Packets) -> None:
    packets.write_in_bursts()
    assert packets.answer_to(lambda: packets.peer.send(b"data")) == [b"data!?"]


@only_penstock
def test_writes_of_a_task_are_sent_at_its_next_suspension(packets: Packets) -> None:
    async def write() -> list[list[bytes]]:
        seen = []
        for _ in range(CORK_THRESHOLD + 1):
            packets.transport.write(b"1")
            packets.transport.write(b"2")
            await asyncio.sleep(0)
            seen.append(packets.arrived())
        return seen

    seen = packets.loop.run_until_complete(write())
    assert seen == [[b"1", b"2"]] * CORK_THRESHOLD + [[b"12"]]


def test_writes_outside_of_callbacks_are_sent_at_once(packets: Packets) -> None:
    packets.write_in_bursts()
    write_each(b"1", b"2")(packets.transport)
    assert packets.arrived() == [b"1", b"2"]


def test_writes_of_a_callback_that_raises_are_also_sent(
    packets: Packets, contexts: list[dict[str, Any]]
) -> None:
    packets.write_in_bursts()

    def write_and_fail(transport: Any) -> None:
        write_each(b"1", b"2", b"3")(transport)
        raise ZeroDivisionError

    assert b"".join(packets.in_one_callback(write_and_fail)) == b"123"
    assert len(contexts) == 1


def test_the_write_buffer_is_empty_while_the_socket_is_writable(packets: Packets) -> None:
    packets.write_in_bursts()
    sizes = []

    def write(transport: Any) -> None:
        for _ in range(3):
            transport.write(b"x")
            sizes.append(transport.get_write_buffer_size())

    assert packets.in_one_callback(write) == [b"x"] * 3
    assert sizes == [0, 0, 0]


@pytest.mark.parametrize("end", ["close", "abort", "write_eof"])
def test_written_data_are_sent_before_the_end(packets: Packets, end: str) -> None:
    packets.write_in_bursts()

    def write_and_end(transport: Any) -> None:
        write_each(b"1", b"2", b"3")(transport)
        getattr(transport, end)()

    arrived = packets.in_one_callback(write_and_end)
    packets.loop.run_until_complete(asyncio.sleep(0))
    arrived += packets.arrived()
    assert b"".join(arrived) == b"123"
    assert arrived[-1] == b""


def test_written_data_are_sent_before_an_end_by_an_exception(
    packets: Packets, contexts: list[dict[str, Any]]
) -> None:
    packets.write_in_bursts()
    packets.failure = ZeroDivisionError()
    arrived = packets.answer_to(lambda: packets.peer.send(b"data"))
    assert b"".join(arrived) == b"data!?"
    assert [context["exception"] for context in contexts] == [packets.failure]


def test_a_buffer_may_change_after_its_write(packets: Packets) -> None:
    packets.write_in_bursts()

    def write(transport: Any) -> None:
        buffer = bytearray(b"first")
        for _ in range(3):
            transport.write(memoryview(buffer))
            buffer[:] = b"later"

    assert b"".join(packets.in_one_callback(write)) == b"firstlaterlater"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_a_peer_that_does_not_read_pauses_the_writer_within_its_callback(packets: Packets) -> None:
    packets.write_in_bursts()
    paused_after = []

    def write(transport: Any) -> None:
        written = 0
        while not packets.paused and written < 10_000_000:
            transport.write(b"x" * 1000)
            written += 1000
        paused_after.append(written)

    packets.in_one_callback(write)
    assert packets.paused[0] is True
    assert paused_after[0] < 1_000_000


@only_penstock
def test_held_data_are_bounded(packets: Packets) -> None:
    packets.write_in_bursts()
    most = 0

    def write(transport: Any) -> None:
        nonlocal most
        for _ in range(100):
            transport.write(b"x" * 1000)
            arrived = packets.arrived()
            most = max(most, *(len(packet) for packet in arrived)) if arrived else most

    packets.in_one_callback(write)
    assert 1000 < most <= HELD_AT_MOST + 1000


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_more_writes_than_one_system_call_accepts_need_no_further_event(packets: Packets) -> None:
    packets.write_in_bursts()
    arrived = packets.in_one_callback(write_each(*(bytes([i]) * 3 for i in range(200))))
    assert b"".join(arrived) == b"".join(bytes([i]) * 3 for i in range(200))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_sendfile_sends_after_earlier_writes(packets: Packets, tmp_path: Any) -> None:
    packets.write_in_bursts()
    file = tmp_path / "file"
    file.write_bytes(b"file")

    async def send() -> None:
        write_each(b"1", b"2", b"3")(packets.transport)
        with file.open("rb") as opened:
            await packets.loop.sendfile(packets.transport, opened)
        packets.transport.write(b"4")

    packets.loop.run_until_complete(send())
    assert b"".join(packets.arrived()) == b"123file4"


def test_a_lost_connection_drops_held_data(packets: Packets) -> None:
    packets.write_in_bursts()

    def write(transport: Any) -> None:
        transport.write(b"1")
        packets.peer.close()
        for _ in range(3):
            transport.write(b"2")

    packets.loop.call_soon(write, packets.transport)
    packets.loop.run_until_complete(asyncio.sleep(0))
    assert packets.transport.is_closing()


CHUNKS = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 3).map(lambda i: bytes([i]) * 40_000),
    st.just(b"L" * 70_000),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "mutable", "lines", "size", "pause"]), CHUNKS), max_size=8
)


# Python 3.13's asyncio itself hangs in writelines() of empty chunks.
@only_penstock
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(callbacks=st.lists(STEPS, max_size=5))
def test_whatever_is_written_arrives_in_order(
    loop: asyncio.AbstractEventLoop, run: Run, callbacks: list[list[tuple[str, bytes]]]
) -> None:
    packets = Packets(loop, socket.SOCK_STREAM)
    packets.write_in_bursts()
    transport = packets.transport
    expected = bytearray()

    def do(step: str, chunk: bytes) -> None:
        if step == "size":
            assert transport.get_write_buffer_size() >= 0
        elif step == "pause":
            transport.pause_reading()
            transport.resume_reading()
        else:
            expected.extend(chunk)
            if step == "write":
                transport.write(chunk)
            elif step == "lines":
                transport.writelines([chunk[:3], chunk[3:]])
            else:
                buffer = bytearray(chunk)
                transport.write(buffer)
                buffer[:] = b"\0" * len(buffer)

    def callback(steps: list[tuple[str, bytes]]) -> None:
        for step, chunk in steps:
            do(step, chunk)

    async def main() -> bytes:
        for steps in callbacks:
            loop.call_soon(callback, steps)
        loop.call_soon(transport.close)
        received = bytearray()
        while data := await loop.sock_recv(packets.peer, 1 << 20):
            received += data
        packets.peer.close()
        return bytes(received)

    assert run(main()) == bytes(expected)
