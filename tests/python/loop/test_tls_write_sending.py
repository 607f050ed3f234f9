"""The records of each TLS write are sent before it returns, in order, and before the end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from .certificates import client_context, server_context
from .separate_sends import CALLBACKS, SeparateSends, write_each

LARGEST_RECORD = 16384


class TlsPackets(SeparateSends):
    """A TLS transport over a socket pair whose other end distinguishes each send."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        ours, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = client_context().wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )
        self.failure: Exception | None = None
        packets = self

        class Protocol(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                packets.receiving()
                packets.transport.write(data)
                packets.transport.write(b"!")
                if packets.failure is not None:
                    raise packets.failure

        made = loop.create_future()
        self.transport = loop._make_ssl_transport(
            ours, Protocol(), server_context(), made, server_side=True
        )
        loop.run_until_complete(asyncio.wait_for(self._handshake(), 30))
        loop.run_until_complete(made)
        self.arrived()  # the session tickets

    async def _handshake(self) -> None:
        while True:
            try:
                self.session.do_handshake()
                self._send()
                return
            except ssl.SSLWantReadError:
                self._send()
                self._incoming.write(await self.loop.sock_recv(self.peer, 1 << 20))

    def _send(self) -> None:
        while self._outgoing.pending:
            self.peer.send(self._outgoing.read())

    def write(self, data: bytes) -> None:
        """Send data from the peer."""
        self.session.write(data)
        self._send()

    def arrived(self) -> list[bytes]:
        """Return the decrypted data of each send, and b"" for the end."""
        packets: list[bytes] = []
        try:
            while True:
                records = self.peer.recv(1 << 20)
                if not records:
                    return [*packets, b""]
                self._incoming.write(records)
                packets.append(self._decrypted())
        except BlockingIOError:
            return packets

    def _decrypted(self) -> bytes:
        data = b""
        try:
            while part := self.session.read(1 << 20):
                data += part
        except ssl.SSLWantReadError:
            return data
        return data + b"<farewell>"


@pytest.fixture
def packets(loop: asyncio.AbstractEventLoop) -> Iterator[TlsPackets]:
    packets = TlsPackets(loop)
    yield packets
    packets.transport.abort()
    packets.peer.close()
    loop.run_until_complete(asyncio.sleep(0))


def test_each_write_is_sent_before_it_returns(packets: TlsPackets) -> None:
    chunks = [b"header", b"body", b"end"]
    assert packets.during_writes(*chunks) == chunks * CALLBACKS


def test_each_write_of_data_received_is_sent_before_it_returns(packets: TlsPackets) -> None:
    for _ in range(CALLBACKS):
        assert packets.answer_to(lambda: packets.write(b"data")) == [b"data", b"!"]


def test_writes_outside_of_callbacks_are_sent_at_once(packets: TlsPackets) -> None:
    write_each(b"1", b"2")(packets.transport)
    assert packets.arrived() == [b"1", b"2"]


def test_written_data_are_sent_before_close_notify(packets: TlsPackets) -> None:

    def write_and_close(transport: Any) -> None:
        write_each(b"1", b"2")(transport)
        transport.close()

    arrived = packets.in_one_callback(write_and_close)
    assert b"".join(arrived).startswith(b"12<farewell>")


def test_written_data_are_sent_before_an_abort(packets: TlsPackets) -> None:

    def write_and_abort(transport: Any) -> None:
        write_each(b"1", b"2")(transport)
        transport.abort()

    arrived = packets.in_one_callback(write_and_abort)
    assert b"".join(arrived) == b"12"


def test_written_data_are_sent_before_an_end_by_an_exception(
    packets: TlsPackets, contexts: list[dict[str, Any]]
) -> None:
    packets.failure = ZeroDivisionError()
    assert b"".join(packets.answer_to(lambda: packets.write(b"data"))) == b"data!"
    assert [context["exception"] for context in contexts] == [packets.failure]


def test_records_of_every_size_keep_their_order(packets: TlsPackets) -> None:
    chunks = [
        bytes([i]) * size
        for i, size in enumerate((1, LARGEST_RECORD, 40_000, 5, 20_000, 90_000, 2, 50_000, 1))
    ]
    arrived = b"".join(packets.in_one_callback(write_each(*chunks)))
    expected = b"".join(chunks)
    while len(arrived) < len(expected):
        packets.loop.run_until_complete(asyncio.sleep(0))
        arrived += b"".join(packets.arrived())
    assert arrived == expected
