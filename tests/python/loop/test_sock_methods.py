"""sock_recv and similar methods: sockets awaited without a transport."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Run
from .peers import receive_exactly, unused_port

Pair = tuple[socket.socket, socket.socket]
BIG = bytes(range(256)) * 16384


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.settimeout(30)
    with left, right:
        yield left, right


@pytest.fixture
def datagrams() -> Iterator[Pair]:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as left,
        socket.socket(type=socket.SOCK_DGRAM) as right,
    ):
        for sock in (left, right):
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
        yield left, right


def test_recv_waits_for_data_and_reports_the_end(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        right.send(b"there already")
        assert await loop.sock_recv(left, 5) == b"there"
        assert await loop.sock_recv(left, 100) == b" already"
        waiting = asyncio.create_task(loop.sock_recv(left, 100))
        await asyncio.sleep(0)
        right.send(b"later")
        assert await waiting == b"later"
        right.close()
        assert await loop.sock_recv(left, 100) == b""

    run(main())


def test_recv_into_fills_the_buffer(loop: asyncio.AbstractEventLoop, run: Run, pair: Pair) -> None:
    left, right = pair

    async def main() -> None:
        buffer = bytearray(10)
        waiting = asyncio.create_task(loop.sock_recv_into(left, memoryview(buffer)[2:]))
        await asyncio.sleep(0)
        right.send(b"later")
        assert await waiting == 5
        assert buffer == b"\0\0later\0\0\0"

    run(main())


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_sendall_sends_all_data_to_a_slow_reader(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair, wrap: type
) -> None:
    left, right = pair

    async def main() -> None:
        reading = asyncio.create_task(asyncio.to_thread(receive_exactly, right, len(BIG)))
        assert await loop.sock_sendall(left, wrap(BIG)) is None
        assert await reading == BIG
        await loop.sock_sendall(left, b"")

    run(main())


def test_sendall_to_a_closed_peer_raises(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    right.close()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        run(loop.sock_sendall(left, BIG))


def test_a_cancelled_recv_consumes_no_data(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        waiting = asyncio.create_task(loop.sock_recv(left, 10))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        right.send(b"kept")
        assert await loop.sock_recv(left, 10) == b"kept"
        assert loop.remove_reader(left) is False

    run(main())


def test_a_timed_out_recv_consumes_no_data(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(loop.sock_recv(left, 10), 0.001)
        right.send(b"kept")
        assert await asyncio.wait_for(loop.sock_recv(left, 10), 30) == b"kept"

    run(main())


def test_reading_and_writing_one_socket_at_once(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            for sock in (left, right):
                sock.setblocking(False)

            async def read(sock: socket.socket) -> bytes:
                data = b""
                while len(data) < len(BIG):
                    data += await loop.sock_recv(sock, 1 << 20)
                return data

            results = await asyncio.gather(
                read(left),
                read(right),
                loop.sock_sendall(left, BIG),
                loop.sock_sendall(right, BIG),
            )
            assert results[:2] == [BIG, BIG]

    run(main())


def test_connect_and_accept_complete(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            listener.setblocking(False)
            client.setblocking(False)
            accepting = asyncio.create_task(loop.sock_accept(listener))
            await asyncio.sleep(0)
            await loop.sock_connect(client, listener.getsockname())
            accepted, address = await accepting
            with accepted:
                assert address == client.getsockname()
                assert accepted.gettimeout() == 0
                await loop.sock_sendall(client, b"hi")
                assert await loop.sock_recv(accepted, 10) == b"hi"

    run(main())


def test_a_name_is_resolved_by_connect(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("localhost", listener.getsockname()[1]))
            assert client.getpeername() == listener.getsockname()

    run(main())


def test_a_refused_connect_raises(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.socket() as client:
            client.setblocking(False)
            with pytest.raises(ConnectionRefusedError):
                await loop.sock_connect(client, ("127.0.0.1", unused_port()))

    run(main())


def test_unix_sockets_connect(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = f"\0penstock-sock-{os.getpid()}"

    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            listener.bind(name)
            listener.listen()
            client.setblocking(False)
            await loop.sock_connect(client, name)

    run(main())


def test_datagrams_are_sent_and_received(
    loop: asyncio.AbstractEventLoop, run: Run, datagrams: Pair
) -> None:
    left, right = datagrams

    async def main() -> None:
        waiting = asyncio.create_task(loop.sock_recvfrom(right, 100))
        await asyncio.sleep(0)
        assert await loop.sock_sendto(left, b"one", right.getsockname()) == 3
        assert await waiting == (b"one", left.getsockname())
        await loop.sock_sendto(left, b"two", right.getsockname())
        buffer = bytearray(10)
        count, sender = await loop.sock_recvfrom_into(right, buffer)
        assert (count, sender, bytes(buffer[:3])) == (3, left.getsockname(), b"two")
        await loop.sock_sendto(left, b"three", right.getsockname())
        count, sender = await loop.sock_recvfrom_into(right, buffer, 2)
        assert (count, bytes(buffer[:3])) == (2, b"tho")

    run(main())


@pytest.mark.parametrize(("offset", "count"), [(0, None), (1000, None), (1000, 5000)])
def test_sendfile_sends_a_part_of_a_file(
    loop: asyncio.AbstractEventLoop,
    run: Run,
    tmp_path: Path,
    offset: int,
    count: int | None,
) -> None:
    (tmp_path / "file").write_bytes(BIG)
    expected = BIG[offset:] if count is None else BIG[offset : offset + count]

    async def main() -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.socket() as client,
            open(tmp_path / "file", "rb") as file,
        ):
            client.setblocking(False)
            await loop.sock_connect(client, listener.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                reading = asyncio.create_task(
                    asyncio.to_thread(receive_exactly, accepted, len(expected))
                )
                sent = await loop.sock_sendfile(client, file, offset, count)
                assert sent == len(expected)
                assert file.tell() == offset + sent
                assert await reading == expected

    run(main())


def test_sendfile_sends_over_a_transport(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(BIG)

    async def main() -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            open(tmp_path / "file", "rb") as file,
        ):
            transport, _ = await loop.create_connection(asyncio.Protocol, *listener.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                total = len(BIG) + 8
                reading = asyncio.create_task(asyncio.to_thread(receive_exactly, accepted, total))
                transport.write(b"head")
                assert await loop.sendfile(transport, file) == len(BIG)
                transport.write(b"tail")
                assert await reading == b"head" + BIG + b"tail"
                transport.close()
                await asyncio.sleep(0)

    run(main())


def test_debug_mode_refuses_a_blocking_socket(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, _ = pair
    left.setblocking(True)
    loop.set_debug(True)
    for call in (
        loop.sock_recv(left, 1),
        loop.sock_sendall(left, b"x"),
        loop.sock_accept(left),
        loop.sock_connect(left, "x"),
    ):
        with pytest.raises(ValueError, match="the socket must be non-blocking"):
            run(call)
    loop.set_debug(False)
