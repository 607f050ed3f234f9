"""Datagram endpoints."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import pytest

from .conftest import Run

LOCAL = ("127.0.0.1", 0)


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.received: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.lost: list[Exception | None] = []
        self.closed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.put_nowait(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.closed.set()


async def finish(*transports: Any) -> None:
    for transport in transports:
        transport.close()
        transport.close()
        assert transport.is_closing()
    await asyncio.gather(*(transport_protocol(t).closed.wait() for t in transports))


def transport_protocol(transport: Any) -> Datagrams:
    protocol: Datagrams = transport.get_protocol() or Datagrams()
    return protocol


def test_datagrams_are_exchanged_in_both_directions(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server, receiving = await loop.create_datagram_endpoint(Datagrams, local_addr=LOCAL)
        address = server.get_extra_info("sockname")
        client, answered = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
        assert isinstance(server, asyncio.BaseTransport)
        assert client.get_extra_info("peername") == address
        for size in (1, 1000, 60000):
            client.sendto(b"x" * size)
            data, sender = await receiving.received.get()
            assert data == b"x" * size
            assert sender == client.get_extra_info("sockname")
            server.sendto(data[:10], sender)
            assert await answered.received.get() == (data[:10], address)
        await finish(server, client)
        assert receiving.lost == [None]

    run(main())


def test_an_empty_datagram_arrives_on_python_3_13(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    if sys.version_info < (3, 13):
        pytest.skip("asyncio drops empty datagrams before Python 3.13")

    async def main() -> None:
        server, receiving = await loop.create_datagram_endpoint(Datagrams, local_addr=LOCAL)
        client, _ = await loop.create_datagram_endpoint(
            Datagrams, remote_addr=server.get_extra_info("sockname")
        )
        client.sendto(b"")
        assert (await receiving.received.get())[0] == b""
        await finish(server, client)

    run(main())


def test_a_refused_datagram_calls_error_received(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as gone:
            gone.bind(LOCAL)
            address = gone.getsockname()
        client, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
        client.sendto(b"anybody?")
        assert isinstance(await protocol.errors.get(), ConnectionRefusedError)
        assert not client.is_closing()
        await finish(client)

    run(main())


def test_a_connected_endpoint_sends_to_its_peer_only(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server, receiving = await loop.create_datagram_endpoint(Datagrams, local_addr=LOCAL)
        address = server.get_extra_info("sockname")
        client, _ = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
        client.sendto(b"named", address)
        assert (await receiving.received.get())[0] == b"named"
        with pytest.raises(ValueError, match="Invalid address"):
            client.sendto(b"elsewhere", ("127.0.0.1", 9))
        await finish(server, client)

    run(main())


@pytest.mark.parametrize("wrong", ["text", None, 5])
def test_data_that_are_not_bytes_like_are_refused(
    loop: asyncio.AbstractEventLoop, run: Run, wrong: Any
) -> None:
    async def main() -> None:
        client, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=LOCAL)
        with pytest.raises(TypeError):
            client.sendto(wrong, ("127.0.0.1", 9))
        await finish(client)

    run(main())


def test_a_protocol_that_raises_ends_the_endpoint_and_is_reported(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]]
) -> None:
    class Raising(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            raise LookupError("meant")

    async def main() -> None:
        server, protocol = await loop.create_datagram_endpoint(Raising, local_addr=LOCAL)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", server.get_extra_info("sockname"))
        while not contexts:  # noqa: ASYNC110 - the handler is not awaitable
            await asyncio.sleep(0.001)
        assert type(contexts[0]["exception"]) is LookupError
        server.abort()
        await protocol.closed.wait()

    run(main())


def test_a_socket_is_taken_over(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.bind(LOCAL)
        sock.setblocking(False)
        server, receiving = await loop.create_datagram_endpoint(Datagrams, sock=sock)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", server.get_extra_info("sockname"))
            assert (await receiving.received.get())[0] == b"x"
        await finish(server)

    run(main())


def test_wrong_arguments_are_refused(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with socket.socket() as stream:
        stream.setblocking(False)
        with pytest.raises(ValueError, match=r"[Ss]ocket was expected"):
            run(loop.create_datagram_endpoint(Datagrams, sock=stream))
    with pytest.raises(ValueError, match="unexpected address family"):
        run(loop.create_datagram_endpoint(Datagrams))


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize(
    "where", ["connection_made", "datagram_received", "error_received", "pause_writing"]
)
def test_an_endpoint_may_be_ended_in_every_callback(
    loop: asyncio.AbstractEventLoop, run: Run, how: str, where: str
) -> None:
    def end(self: Datagrams, *arguments: Any) -> None:
        getattr(Datagrams, where)(self, *arguments)
        getattr(self.transport, how)()

    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.bind(LOCAL)
            transport, protocol = await loop.create_datagram_endpoint(
                type("Ending", (Datagrams,), {where: end}), remote_addr=peer.getsockname()
            )
            if where == "datagram_received":
                for _ in range(3):
                    peer.sendto(b"data", transport.get_extra_info("sockname"))
            elif where == "pause_writing":
                transport.set_write_buffer_limits(high=0)
                protocol.pause_writing()
            elif where == "error_received":
                peer.close()
                transport.sendto(b"to nobody")
            await protocol.closed.wait()
            assert protocol.lost == [None]
            assert transport.is_closing()
            assert protocol.received.qsize() <= 1

    run(main())
