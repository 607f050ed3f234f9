"""Each write is sent before it returns, and all that is written is sent in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Run
from .separate_sends import CALLBACKS, SeparateSends, only_penstock, write_each


class Packets(SeparateSends):
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


def test_each_write_is_sent_before_it_returns(packets: Packets) -> None:
    chunks = [b"header", b"body", b"end"]
    assert packets.during_writes(*chunks) == chunks * CALLBACKS


def test_the_chunks_of_one_call_of_writelines_are_sent_together(packets: Packets) -> None:
    seen: list[bytes] = []

    def write(transport: Any) -> None:
        for chunks in ([b"a", b"b"], [b"c", b"d"]):
            transport.writelines(chunks)
            seen.extend(packets.arrived())

    for _ in range(CALLBACKS):
        packets.in_one_callback(write)
    assert seen == [b"ab", b"cd"] * CALLBACKS


def test_each_write_of_data_received_is_sent_before_it_returns(packets: Packets) -> None:
    for _ in range(CALLBACKS):
        assert packets.answer_to(lambda: packets.peer.send(b"data")) == [b"data", b"!", b"?"]


def test_each_write_of_a_task_is_sent_before_it_returns(packets: Packets) -> None:
    async def write() -> list[bytes]:
        seen = []
        for _ in range(CALLBACKS):
            for chunk in (b"1", b"2"):
                packets.transport.write(chunk)
                seen += packets.arrived()
            await asyncio.sleep(0)
        return seen

    assert packets.loop.run_until_complete(write()) == [b"1", b"2"] * CALLBACKS


def test_writes_outside_of_callbacks_are_sent_at_once(packets: Packets) -> None:
    write_each(b"1", b"2")(packets.transport)
    assert packets.arrived() == [b"1", b"2"]


def test_writes_of_a_callback_that_raises_are_also_sent(
    packets: Packets, contexts: list[dict[str, Any]]
) -> None:

    def write_and_fail(transport: Any) -> None:
        write_each(b"1", b"2", b"3")(transport)
        raise ZeroDivisionError

    assert b"".join(packets.in_one_callback(write_and_fail)) == b"123"
    assert len(contexts) == 1


def test_the_write_buffer_is_empty_while_the_socket_is_writable(packets: Packets) -> None:
    sizes = []

    def write(transport: Any) -> None:
        for _ in range(3):
            transport.write(b"x")
            sizes.append(transport.get_write_buffer_size())

    assert packets.in_one_callback(write) == [b"x"] * 3
    assert sizes == [0, 0, 0]


@pytest.mark.parametrize("end", ["close", "abort", "write_eof"])
def test_written_data_are_sent_before_the_end(packets: Packets, end: str) -> None:

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
    packets.failure = ZeroDivisionError()
    arrived = packets.answer_to(lambda: packets.peer.send(b"data"))
    assert b"".join(arrived) == b"data!?"
    assert [context["exception"] for context in contexts] == [packets.failure]


def test_a_buffer_may_change_after_its_write(packets: Packets) -> None:

    def write(transport: Any) -> None:
        buffer = bytearray(b"first")
        for _ in range(3):
            transport.write(memoryview(buffer))
            buffer[:] = b"later"

    assert b"".join(packets.in_one_callback(write)) == b"firstlaterlater"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_a_peer_that_does_not_read_pauses_the_writer_within_its_callback(packets: Packets) -> None:
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


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_more_chunks_than_one_system_call_accepts_are_sent_before_writelines_returns(
    packets: Packets,
) -> None:
    chunks = [bytes([i]) * 3 for i in range(200)]
    seen: list[bytes] = []

    def write(transport: Any) -> None:
        transport.writelines(chunks)
        seen.extend(packets.arrived())

    packets.in_one_callback(write)
    assert b"".join(seen) == b"".join(chunks)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM])
def test_sendfile_sends_after_earlier_writes(packets: Packets, tmp_path: Any) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"file")

    async def send() -> None:
        write_each(b"1", b"2", b"3")(packets.transport)
        with file.open("rb") as opened:
            await packets.loop.sendfile(packets.transport, opened)
        packets.transport.write(b"4")

    packets.loop.run_until_complete(send())
    assert b"".join(packets.arrived()) == b"123file4"


def test_a_lost_connection_drops_what_is_written(packets: Packets) -> None:

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
