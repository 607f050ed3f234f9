"""sock_connect, sock_accept and datagrams as native awaitables: addresses, errors, cancelling."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from .conftest import Run
from .peers import unused_port
from .socket_pairs import settle


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_connect_and_accept_complete(loop: asyncio.AbstractEventLoop, run: Run, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    async def main() -> None:
        with socket.create_server((host, 0), family=family) as listener:
            listener.setblocking(False)
            for _ in range(3):
                accepting = asyncio.create_task(loop.sock_accept(listener))
                await settle()
                with socket.socket(family) as client:
                    client.setblocking(False)
                    await loop.sock_connect(client, listener.getsockname())
                    connection, address = await accepting
                    with connection:
                        assert type(connection) is socket.socket
                        assert connection.family == family
                        assert connection.gettimeout() == 0
                        assert not connection.get_inheritable()
                        assert not os.get_blocking(connection.fileno())
                        assert address == client.getsockname()
                        await loop.sock_sendall(connection, b"hello")
                        assert await loop.sock_recv(client, 10) == b"hello"

    run(main())


def test_a_refused_connection_names_the_address(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    port = unused_port()

    async def main() -> None:
        with socket.socket() as client:
            client.setblocking(False)
            with pytest.raises(ConnectionRefusedError) as caught:
                await loop.sock_connect(client, ("127.0.0.1", port))
            assert f"Connect call failed ('127.0.0.1', {port})" in str(caught.value)

    run(main())


def test_a_cancelled_accept_consumes_no_connection(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            for _ in range(20):
                task = asyncio.create_task(loop.sock_accept(listener))
                await settle()
                task.cancel()
                with socket.create_connection(listener.getsockname()) as client:
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    connection, address = await loop.sock_accept(listener)
                    connection.close()
                    assert address == client.getsockname()

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_have_addresses(loop: asyncio.AbstractEventLoop, run: Run, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    async def main() -> None:
        with (
            socket.socket(family, socket.SOCK_DGRAM) as left,
            socket.socket(family, socket.SOCK_DGRAM) as right,
        ):
            for sock in (left, right):
                sock.bind((host, 0))
                sock.setblocking(False)
            receiving = asyncio.create_task(loop.sock_recvfrom(right, 100))
            await settle()
            assert await loop.sock_sendto(left, b"", right.getsockname()) == 0
            assert await receiving == (b"", left.getsockname())
            for number in range(3):
                await loop.sock_sendto(left, b"%d" % number, right.getsockname()[:2])
            buffer = bytearray(10)
            assert await loop.sock_recvfrom_into(right, buffer) == (1, left.getsockname())
            assert await loop.sock_recvfrom_into(right, buffer, 4) == (1, left.getsockname())
            assert await loop.sock_recv(right, 100) == b"2"
            assert buffer == b"1" + bytes(9)
            with pytest.raises(OverflowError):
                await loop.sock_sendto(left, b"x", (host, 65536))

    run(main())


def test_connected_datagrams_are_all_received(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.setblocking(False)

    async def main() -> None:
        for _ in range(10):
            waiting = asyncio.create_task(loop.sock_recv(left, 100))
            await settle()
            for number in range(4):
                right.send(b"%d" % number)
            assert await waiting == b"0"
            assert [await loop.sock_recv(left, 100) for _ in range(3)] == [b"1", b"2", b"3"]

    with left, right:
        run(main())
